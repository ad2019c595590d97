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

// Initialises each parameter as the model's inventory specifies: Normal(0, initializer_range),
// ones, zeros, or uniform like torch.nn.Linear. The value of an element depends only on the seed,
// the parameter's name and the element's global index, never on the layout.
void initialize(parallel::ParallelModel& model, int64_t seed);

// Reads this rank's boxes of all parameters. Throws Error(kFormat) with a list of all mismatches if
// the source lacks parameters, stores them with another shape or as codes of quantised weights, or
// has tensors that the model does not have. If the source stores a tied head, the head must equal
// the embedding. If the source has no adapters, the model's adapters remain unchanged.
void load(parallel::ParallelModel& model, const stored::TensorSource& source);

// Returns the path of the weights that the plan's model.weights selects. For "auto", this is the
// folder of the model's config if it contains weights; for "none", there is no path; any other
// value is the path itself. Without a path, the model is initialised randomly. Throws Error(kPlan)
// if "auto" finds only weights in PyTorch's pickle format.
std::optional<std::filesystem::path> weights_path(const config::Plan& plan);

// Loads the weights at weights_path(), or initialises the model if there is no path. Then loads
// adapters if the plan sets lora.weights. Returns a description for the log, for example
// "initialised with seed 0" or "loaded from PATH". Collective.
std::string load_or_initialize(parallel::ParallelModel& model, const config::Plan& plan);

inline constexpr int64_t kExportFileBytes = 5'000'000'000;

// Contents of an export of a model with adapters. kApart: only the adapters, in PEFT's files.
// kMerged: the model, with the adapters merged into its weights.
enum class AdapterExport { kApart, kMerged };

// Writes a folder that transformers loads: config.json, model.safetensors in `dtype` (empty: the
// stored dtype), generation_config.json, and the tokenizer at `tokenizer` or beside the model's
// config (export_folder.h). Weights larger than `max_file_bytes` are split into several files with
// an index. Gathers one parameter at a time; rank 0 writes. The folder appears atomically; throws
// Error(kIo) if it exists and is not empty. Calls `between` on every rank before each parameter and
// between parts of large ones; to end the export, `between` may throw, on all ranks. Collective.
void export_hf(const std::filesystem::path& folder, parallel::ParallelModel& model,
               std::optional<at::ScalarType> dtype, int64_t max_file_bytes = kExportFileBytes,
               const std::function<void()>& between = {},
               AdapterExport adapters = AdapterExport::kApart,
               const std::filesystem::path& tokenizer = {});
// Overload for the tensors of a checkpoint instead of a model. Holds one block of rows in memory at
// a time.
void export_hf(const std::filesystem::path& folder, const stored::TensorSource& source,
               std::optional<at::ScalarType> dtype, int64_t max_file_bytes = kExportFileBytes,
               const std::function<void()>& between = {},
               const std::filesystem::path& tokenizer = {});

}  // namespace am::checkpoint
