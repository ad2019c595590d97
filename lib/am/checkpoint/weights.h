// Where a model's first values come from, and how they leave: initialise, load, export.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "am/config/plan.h"
#include "am/parallel/parallel_model.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

// Normal(0, initializer_range), ones, zeros, or uniform as torch.nn.Linear, by the inventory; the
// value of an element depends on the seed, the parameter's name and its global index alone, never
// on the layout.
void initialize(parallel::ParallelModel& model, int64_t seed);

// Reads this rank's boxes. Throws Error(kFormat) that lists what does not fit: parameters that the
// source lacks, or has in another shape or as codes of quantised weights, and tensors that the
// model has no place for. A source that spells out a tied head must hold the embedding's values in
// it. A model's adapters stay as they are where the source has none.
void load(parallel::ParallelModel& model, const stored::TensorSource& source);

// What the plan's model.weights stands for: "auto" is the *.safetensors beside the config when
// there are any, "none" nothing, else a path. Nothing: the model is initialised. Throws
// Error(kPlan) where "auto" meets weights that only PyTorch's pickle reads.
std::optional<std::filesystem::path> weights_path(const config::Plan& plan);

// Loads those, or initialises; then adapters from lora.weights, where the plan names some. Returns
// what was done, for the log: "initialised with seed 0" or "loaded from PATH".
std::string load_or_initialize(parallel::ParallelModel& model, const config::Plan& plan);

inline constexpr int64_t kExportFileBytes = 5'000'000'000;

// What an export has of a model with adapters: those alone, in PEFT's files, or the model with them
// added to its weights.
enum class AdapterExport { kApart, kMerged };

// Writes a folder that transformers loads: config.json, model.safetensors (several files with an
// index past `max_file_bytes`) in `dtype` (absent: as stored), and the files of the tokenizer and
// of generation that lie beside the model's config or at `tokenizer` (export_folder.h). Collective:
// parameters are gathered one at a time and written by rank 0. The folder appears whole or not at
// all; an existing one that is not empty is an Error(kIo). `between` is called before each
// parameter and within large ones, on every rank: what it throws, on all of them, ends the export.
void export_hf(const std::filesystem::path& folder, parallel::ParallelModel& model,
               std::optional<at::ScalarType> dtype, int64_t max_file_bytes = kExportFileBytes,
               const std::function<void()>& between = {},
               AdapterExport adapters = AdapterExport::kApart,
               const std::filesystem::path& tokenizer = {});
// The same from tensors at rest; needs no model and no second copy in memory.
void export_hf(const std::filesystem::path& folder, const stored::TensorSource& source,
               std::optional<at::ScalarType> dtype, int64_t max_file_bytes = kExportFileBytes,
               const std::function<void()>& between = {},
               const std::filesystem::path& tokenizer = {});

}  // namespace am::checkpoint
