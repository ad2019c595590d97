// From a model's description to layers: each module is found by its role, whatever its name.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "am/model/spec.h"
#include "am/nn/decoder.h"
#include "am/nn/layers.h"

namespace am::nn {

using ParametersByName = std::map<std::string, ParameterPtr, std::less<>>;

// `prefix` stands before a layer's names: "model.layers.3."; outside of the layers it is empty.
// Each throws an internal error where a parameter is not there.
Linear build_linear(const model::ModuleSpec& module, const std::string& prefix,
                    const ParametersByName& parameters);
Norm build_norm(const model::ModuleSpec& module, const std::string& prefix,
                const ParametersByName& parameters);
// A layer of a runnable family (runnable.h).
DecoderLayer build_layer(const model::LayerSpec& layer, const std::string& prefix,
                         const ParametersByName& parameters);

}  // namespace am::nn
