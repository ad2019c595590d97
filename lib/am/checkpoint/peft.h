// Reads and writes low-rank adapters in PEFT's files: adapter_config.json, and
// adapter_model.safetensors, in which the model's "NAME.lora_A.weight" is named
// "base_model.model.NAME.lora_A.weight".
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "am/model/inventory.h"
#include "am/parallel/parallel_model.h"

namespace am::checkpoint {

bool has_adapters(const model::Inventory& inventory);

// Reads this rank's boxes of the adapters' matrices A and B into the model. `path`: the adapter's
// folder, or the adapter_model.safetensors or .bin in it. Throws Error(kFormat) if the stored
// adapters and the model's differ in targets, rank or scale, or if the stored adapters have more
// than A and B.
void load_adapter(parallel::ParallelModel& model, const std::filesystem::path& path);

// Returns the text of an adapter_config.json for the model's adapters.
std::string adapter_config(const parallel::ParallelModel& model);

// Returns a full parameter of the base model, to which its adapter's product of B and A is added.
// Collective.
at::Tensor merged_parameter(const parallel::ParallelModel& model, const std::string& name);

}  // namespace am::checkpoint
