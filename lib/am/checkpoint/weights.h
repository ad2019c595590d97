// Initialises, loads and exports a model's weights.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "am/config/plan.h"
#include "am/parallel/parallel_model.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

// Initialises each parameter as the inventory says: Normal(0, initializer_range), ones, zeros, or
// uniform like torch.nn.Linear. The value of an element depends only on the seed, the parameter's
// name and the global index, never on the layout.
void initialize(parallel::ParallelModel& model, int64_t seed);

// Reads this rank's boxes of all parameters. Throws Error(kFormat), which lists all mismatches, if
// the source lacks parameters, stores them with another shape or as codes of quantised weights, or
// has tensors that the model does not have. If the source stores a tied head, the head must equal
// the embedding. Adapters remain unchanged if the source has none.
void load(parallel::ParallelModel& model, const stored::TensorSource& source);

// Returns the path that the plan's model.weights selects: for "auto" the folder of the config if it
// has weights, for "none" nothing, otherwise the value itself. Without a path the model is
// initialised. Throws Error(kPlan) if "auto" finds only weights in PyTorch's pickle format.
std::optional<std::filesystem::path> weights_path(const config::Plan& plan);

// Loads weights from weights_path(), or initialises them; then loads adapters from lora.weights if
// the plan sets it. Returns a description for the log, for example "initialised with seed 0" or
// "loaded from PATH". Collective.
std::string load_or_initialize(parallel::ParallelModel& model, const config::Plan& plan);

inline constexpr int64_t kExportFileBytes = 5'000'000'000;

// How a model with adapters is exported: only the adapters, in PEFT's files (kApart), or the model
// with the adapters merged into its weights (kMerged).
enum class AdapterExport { kApart, kMerged };

// Writes a folder that transformers loads: config.json, model.safetensors in `dtype` (if empty, as
// stored), generation_config.json, and the tokenizer beside the model's config or at `tokenizer`
// (export_folder.h). Weights larger than `max_file_bytes` are split into several files with an
// index. Parameters are gathered one at a time and written by rank 0. The folder appears
// atomically; throws Error(kIo) if it exists and is not empty. `between` is called on every rank
// before each parameter and between parts of large ones; it may throw, on all ranks, to end the
// export. Collective.
void export_hf(const std::filesystem::path& folder, parallel::ParallelModel& model,
               std::optional<at::ScalarType> dtype, int64_t max_file_bytes = kExportFileBytes,
               const std::function<void()>& between = {},
               AdapterExport adapters = AdapterExport::kApart,
               const std::filesystem::path& tokenizer = {});
// Exports the tensors of a checkpoint instead of a model, with a block of rows in memory at a time.
void export_hf(const std::filesystem::path& folder, const stored::TensorSource& source,
               std::optional<at::ScalarType> dtype, int64_t max_file_bytes = kExportFileBytes,
               const std::function<void()>& between = {},
               const std::filesystem::path& tokenizer = {});

}  // namespace am::checkpoint
