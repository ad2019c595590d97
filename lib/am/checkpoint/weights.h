// Initialises, loads and exports a model's weights.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/parallel/parallel_model.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

// Initialises each parameter as the model's inventory specifies: with ones, with zeros, with
// normally distributed values of mean 0 and standard deviation initializer_range, or uniformly like
// torch.nn.Linear. The value of an element depends only on the seed, the parameter's name and the
// element's global index, never on the layout.
void initialize(parallel::ParallelModel& model, int64_t seed);

// Reads this rank's boxes of all parameters. Throws Error(kFormat) with the first mismatches if the
// source lacks parameters, stores them with another shape or as codes of quantised weights, or has
// tensors that the model does not have. If the source stores a tied head, the head must equal the
// embedding. If the source has no adapters, the model's adapters remain unchanged. Returns whether
// the source has adapters of the model.
bool load(parallel::ParallelModel& model, const stored::TensorSource& source);

// Returns the path of the weights that the plan's model.weights selects; nullopt if the model is to
// be initialised randomly. "auto" selects the folder of the model's config if it contains weights;
// "none" selects no path; any other value is the path itself. Throws Error(kPlan) if "auto" finds
// only weights in PyTorch's pickle format.
std::optional<std::filesystem::path> weights_path(const config::Plan& plan);

// Loads the weights at weights_path(), or initialises the model if there is no path. Then loads
// adapters if the plan sets lora.weights. Returns a description for the log, for example
// "initialised with seed 0" or "loaded from PATH". Collective.
std::string load_or_initialize(parallel::ParallelModel& model, const config::Plan& plan);

// Default size limit of one exported file.
inline constexpr int64_t kExportFileBytes = 5'000'000'000;

// Contents of an export of a model with adapters. kApart: only the adapters, in PEFT's files.
// kMerged: the model, with the adapters merged into its weights.
enum class AdapterExport { kApart, kMerged };

struct HubExport {
  std::optional<at::ScalarType> dtype;        // dtype of the weights; empty: as stored
  int64_t max_file_bytes = kExportFileBytes;  // larger weights are split into files with an index
  std::filesystem::path tokenizer = {};       // file or folder; empty: beside the model's config
  AdapterExport adapters = AdapterExport::kApart;
  // Whether to write only safetensors files. An export of stored tensors then keeps their names and
  // adapters as stored.
  bool weights_only = false;
};

// Writes a folder that transformers loads: config.json, model.safetensors, generation_config.json,
// and a tokenizer (export_folder.h). Gathers one parameter at a time; rank 0 writes. The folder
// appears atomically. Throws Error(kIo) if `folder` exists and is not empty. Calls `between` on
// every rank before each parameter and after each block of a parameter's bytes. To end the export,
// `between` may throw, but only on all ranks together. Collective.
void export_hf(const std::filesystem::path& folder, parallel::ParallelModel& model,
               const HubExport& options = {}, const std::function<void()>& between = {});
// Overload for stored tensors instead of a model. One process calls it. Holds one block of rows in
// memory at a time.
void export_hf(const std::filesystem::path& folder, const stored::TensorSource& source,
               const HubExport& options = {}, const std::function<void()>& between = {});

struct ExportItem {
  std::string name;
  Shape shape;
  at::ScalarType dtype;  // dtype of the values in the file

  int64_t bytes() const { return numel(shape) * static_cast<int64_t>(c10::elementSize(dtype)); }
};

// Tensors in the memory of the ranks, which an export writes under the names in `items`.
struct ExportTensors {
  std::vector<ExportItem> items;
  std::function<at::Tensor(const std::string& name)> fetch;  // returns a full tensor; collective
  std::string config;                   // text of config.json; empty: writes no config
  std::filesystem::path config_folder;  // folder with the model's other files; empty: none
};
// Overload for tensors in the memory of the ranks of `world`. Ignores options.dtype: each item has
// its own dtype.
void export_hf(const std::filesystem::path& folder, const ExportTensors& tensors,
               const runtime::Group& world, const HubExport& options = {},
               const std::function<void()>& between = {});

}  // namespace am::checkpoint
