// Low-rank adapters in PEFT's files: adapter_model.safetensors, which names
// "base_model.model.NAME.lora_A.weight" what the model names "NAME.lora_A.weight", and
// adapter_config.json beside it.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "am/model/inventory.h"
#include "am/parallel/parallel_model.h"

namespace am::checkpoint {

// Whether the model has adapters.
bool has_adapters(const model::Inventory& inventory);

// Reads this rank's boxes of A and B. `path`: the folder, or its adapter_model.safetensors. Throws
// Error(kFormat) where its adapters are not the model's: other targets, another rank, another
// factor, a kind of adapter that is more than A and B.
void load_adapter(parallel::ParallelModel& model, const std::filesystem::path& path);

// The text of an adapter_config.json.
std::string adapter_config(const parallel::ParallelModel& model);

// Collective: the whole of a parameter of the model itself, with what its adapter adds to it.
at::Tensor merged_parameter(const parallel::ParallelModel& model, const std::string& name);

}  // namespace am::checkpoint
