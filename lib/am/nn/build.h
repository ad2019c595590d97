// Builds layers from a model's description. Modules are found by role, not by name.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "am/model/spec.h"
#include "am/nn/decoder.h"
#include "am/nn/layers.h"

namespace am::nn {

using ParametersByName = std::map<std::string, ParameterPtr, std::less<>>;

// These functions return a linear layer and a norm. `prefix` precedes the parameter names of a
// decoder layer, for example "model.layers.3."; outside the layers, `prefix` is empty. The
// functions throw an internal error if `parameters` lacks a parameter of the module.
Linear build_linear(const model::ModuleSpec& module, const std::string& prefix,
                    const ParametersByName& parameters);
Norm build_norm(const model::ModuleSpec& module, const std::string& prefix,
                const ParametersByName& parameters);
// Returns a decoder layer. am-run must support the model's family (layout/runs.h).
DecoderLayer build_layer(const model::LayerSpec& layer, const std::string& prefix,
                         const ParametersByName& parameters);

}  // namespace am::nn
