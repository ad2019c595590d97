// Low-rank adapters in PEFT's files: adapter_model.safetensors, where the model's
// "NAME.lora_A.weight" is "base_model.model.NAME.lora_A.weight", and adapter_config.json beside it.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "am/model/inventory.h"
#include "am/parallel/parallel_model.h"

namespace am::checkpoint {

bool has_adapters(const model::Inventory& inventory);

// Reads this rank's boxes of A and B. `path`: the folder, or its adapter_model.safetensors or .bin.
// Throws Error(kFormat) if its adapters differ from the model's: other targets, another rank or
// scale, or a kind of adapter with more than A and B.
void load_adapter(parallel::ParallelModel& model, const std::filesystem::path& path);

// Returns the text of an adapter_config.json.
std::string adapter_config(const parallel::ParallelModel& model);

// Returns a full parameter of the base model, with its adapter's product added. Collective.
at::Tensor merged_parameter(const parallel::ParallelModel& model, const std::string& name);

}  // namespace am::checkpoint
