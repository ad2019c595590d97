// A model's weights: initialise, load, export.
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

// Reads this rank's boxes. Throws Error(kFormat) that lists all mismatches: parameters that the
// source lacks, or that have another shape or are codes of quantised weights there, and tensors
// that the model does not have. If the source stores a tied head, it must equal the embedding.
// Adapters remain unchanged if the source has none.
void load(parallel::ParallelModel& model, const stored::TensorSource& source);

// Returns the path that the plan's model.weights selects: for "auto" the *.safetensors beside the
// config if there are any, for "none" nothing, otherwise its value. Without a path the model is
// initialised. Throws Error(kPlan) if "auto" finds only weights in PyTorch's pickle format.
std::optional<std::filesystem::path> weights_path(const config::Plan& plan);

// Collective: loads from weights_path(), or initialises; then loads adapters from lora.weights if
// the plan sets it. Returns a text for the log: "initialised with seed 0" or "loaded from PATH".
std::string load_or_initialize(parallel::ParallelModel& model, const config::Plan& plan);

inline constexpr int64_t kExportFileBytes = 5'000'000'000;

// Export of a model with adapters: only the adapters, in PEFT's files, or the model with the
// adapters merged into its weights.
enum class AdapterExport { kApart, kMerged };

// Writes a folder that transformers loads: config.json, model.safetensors (several files with an
// index past `max_file_bytes`) in `dtype` (absent: as stored), and the tokenizer and generation
// files beside the model's config or at `tokenizer` (export_folder.h). Collective: parameters are
// gathered one at a time and written by rank 0. The folder appears atomically; an existing one that
// is not empty is an Error(kIo). `between` is called on every rank before each parameter and within
// large ones: it may throw, on all ranks, to end the export.
void export_hf(const std::filesystem::path& folder, parallel::ParallelModel& model,
               std::optional<at::ScalarType> dtype, int64_t max_file_bytes = kExportFileBytes,
               const std::function<void()>& between = {},
               AdapterExport adapters = AdapterExport::kApart,
               const std::filesystem::path& tokenizer = {});
// Exports stored tensors instead of a model, without a second copy in memory.
void export_hf(const std::filesystem::path& folder, const stored::TensorSource& source,
               std::optional<at::ScalarType> dtype, int64_t max_file_bytes = kExportFileBytes,
               const std::function<void()>& between = {},
               const std::filesystem::path& tokenizer = {});

}  // namespace am::checkpoint
