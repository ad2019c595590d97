// Functions for Granite's families with experts.
#pragma once

#include <string_view>

#include "am/model/config_reader.h"
#include "am/model/spec.h"

namespace am::model {

// Reads the keys of Granite's routed and shared experts into config.moe. intermediate_size is the
// width of one routed expert. `shared` is the default total width of the shared experts. If
// `shared` is above 0, the model may have no routed experts. In a model without routed experts, the
// shared experts are a dense MLP, whose width replaces config.intermediate_size.
void read_granite_experts(ConfigReader& reader, ModelConfig& config, int64_t shared = 0);

// Names of the modules of Granite's router and routed experts, and of the experts' tensors
// (`leaf_...`). The defaults are the names in the files on the hub. There, the rows of an expert's
// gate precede those of its up projection. transformers uses other names in memory, but saves
// tensors under the hub's names.
struct GraniteExpertNames {
  std::string_view router = "block_sparse_moe.router.layer";
  std::string_view leaf_gate_up = "weight";
  std::string_view gate_up = "block_sparse_moe.input_linear";
  std::string_view leaf_down = "weight";
  std::string_view down = "block_sparse_moe.output_linear";
};
// Adds the router, the experts stored as one tensor per projection, and the shared experts if the
// config has them.
void add_granite_experts(const ModelConfig& config, LayerSpec& spec,
                         const GraniteExpertNames& names = {});

}  // namespace am::model
