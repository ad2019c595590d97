// Reads and writes low-rank adapters in PEFT's files, adapter_config.json and
// adapter_model.safetensors. In the latter, the model's parameter "NAME.lora_A.weight" has the name
// "base_model.model.NAME.lora_A.weight".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "am/layout/layout.h"
#include "am/model/inventory.h"
#include "am/parallel/parallel_model.h"

namespace am::checkpoint {

bool has_adapters(const model::Inventory& inventory);

// Returns the parameters that PEFT's files contain, as indices into layout.parameters: the
// parameters of the adapters, and the trained parameters of the base model (lora.modules_to_save).
std::vector<size_t> parameters_of_adapter(const layout::Layout& layout);

// Reads this rank's boxes of the parameters of parameters_of_adapter() into the model. `path`: the
// folder with PEFT's files, or the adapter_model.safetensors or .bin in it. Throws Error(kFormat)
// if the stored adapters and the model's adapters differ in targets, rank, scale or kind (LoRA or
// DoRA).
void load_adapter(parallel::ParallelModel& model, const std::filesystem::path& path);

// Returns the text of an adapter_config.json for the model's adapters.
std::string adapter_config(const parallel::ParallelModel& model);

// Sets each of DoRA's magnitudes to the norm of one output's weights in the base weight. Does
// nothing without DoRA. Collective.
void initialize_magnitudes(parallel::ParallelModel& model);

// Returns a full parameter of the base model with its adapter merged into it: W + scale * B A,
// where W is the parameter and A and B are the adapter's matrices. With DoRA, each output's weights
// are then scaled to the norm that the adapter's magnitude specifies. A parameter without an
// adapter is returned unchanged. Collective.
at::Tensor merged_parameter(const parallel::ParallelModel& model, const std::string& name);

}  // namespace am::checkpoint
