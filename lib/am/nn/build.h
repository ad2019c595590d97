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

// Build a linear layer or a norm. `prefix` precedes the parameter names of a decoder layer, as in
// "model.layers.3."; it is empty outside of layers. Both functions throw an internal error if a
// parameter is missing.
Linear build_linear(const model::ModuleSpec& module, const std::string& prefix,
                    const ParametersByName& parameters);
Norm build_norm(const model::ModuleSpec& module, const std::string& prefix,
                const ParametersByName& parameters);
// Builds a decoder layer. The model's family must be one that can run (layout/runs.h).
DecoderLayer build_layer(const model::LayerSpec& layer, const std::string& prefix,
                         const ParametersByName& parameters);

}  // namespace am::nn
