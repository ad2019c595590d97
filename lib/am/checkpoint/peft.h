// Reads and writes low-rank adapters in PEFT's files: adapter_model.safetensors, in which the
// model's "NAME.lora_A.weight" has the name "base_model.model.NAME.lora_A.weight", and
// adapter_config.json.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "am/model/inventory.h"
#include "am/parallel/parallel_model.h"

namespace am::checkpoint {

bool has_adapters(const model::Inventory& inventory);

// Reads this rank's boxes of the matrices A and B into the model. `path` is the folder, or the
// adapter_model.safetensors or .bin in it. Throws Error(kFormat) if the adapters differ from the
// model's: if they have other targets, another rank or scale, or more than A and B.
void load_adapter(parallel::ParallelModel& model, const std::filesystem::path& path);

// Returns the text of the adapter_config.json that describes the model's adapters.
std::string adapter_config(const parallel::ParallelModel& model);

// Returns a full parameter of the base model, with its adapter's product added. Collective.
at::Tensor merged_parameter(const parallel::ParallelModel& model, const std::string& name);

}  // namespace am::checkpoint
