// Reads and writes low-rank adapters in PEFT's files: adapter_config.json, and
// adapter_model.safetensors, in which the model's "NAME.lora_A.weight" is named
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

// Returns the parameters that an adapter's files hold, as indices into layout.parameters: those of
// the adapters, and the trained parameters of the base model (lora.modules_to_save).
std::vector<size_t> parameters_of_adapter(const layout::Layout& layout);

// Reads this rank's boxes of parameters_of_adapter() into the model. `path`: the adapter's folder,
// or the adapter_model.safetensors or .bin in it. Throws Error(kFormat) if the stored adapters and
// the model's differ in targets, rank, scale or kind.
void load_adapter(parallel::ParallelModel& model, const std::filesystem::path& path);

// Returns the text of an adapter_config.json for the model's adapters.
std::string adapter_config(const parallel::ParallelModel& model);

// Sets DoRA's magnitudes to the norms of the base weights' rows. Does nothing without DoRA.
// Collective.
void initialize_magnitudes(parallel::ParallelModel& model);

// Returns a full parameter of the base model with its adapter merged into it: W + scale * B A. With
// DoRA, each row is then scaled so that its norm is the row's magnitude. Collective.
at::Tensor merged_parameter(const parallel::ParallelModel& model, const std::string& name);

}  // namespace am::checkpoint
