#include "am/frameworks/accelerate/checkpoint.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/frameworks/paired_source.h"
#include "am/stored/dcp_source.h"
#include "am/stored/hub_config.h"
#include "am/stored/torch_source.h"

namespace am::frameworks {

namespace fs = std::filesystem;

namespace {

// Prefixes of the names of files and folders for a job's first model and first optimizer. A second
// model or optimizer has "_1" instead of "_0".
constexpr const char* kModel = "pytorch_model_fsdp_0";
constexpr const char* kOptimizer = "optimizer_0";
// File in which transformers' Trainer stores the training step. Checkpoints that are saved without
// the Trainer do not contain the step.
constexpr const char* kTrainerState = "trainer_state.json";

// Returns the path of the file to which a rank saves its shards with use_dcp=False. `what`: kModel
// or kOptimizer.
fs::path rank_file(const fs::path& folder, const char* what, int64_t rank) {
  return folder / cat(what, "_rank", rank, ".bin");
}

// Returns the ranks for which a model file exists, in ascending order.
std::vector<int64_t> ranks_of(const fs::path& folder) {
  const std::string begin = cat(kModel, "_rank");
  std::vector<int64_t> ranks;
  if (!fs::is_directory(folder)) return ranks;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".bin" || !starts_with(name, begin)) continue;
    const auto rank = parse_integer(std::string_view(name).substr(begin.size()));
    if (rank && *rank >= 0 && entry.path() == rank_file(folder, kModel, *rank)) {
      ranks.push_back(*rank);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::unique_ptr<stored::TensorSource> open_rank_files(const fs::path& path, const fs::path& config,
                                                      stored::OnDamage damage) {
  stored::TorchFiles files{
      .format = "accelerate",
      .path = path,
      .by_rank = true,
      .config_file = config,
      .step = trainer_step(path),
      .rank_file = [path](int64_t rank) { return rank_file(path, kModel, rank); },
      .damage = damage};
  const std::vector<int64_t> ranks = ranks_of(path);
  // Whether any rank saved optimizer states. False if the job saved only the model.
  const bool optimizer = std::any_of(ranks.begin(), ranks.end(), [&](int64_t rank) {
    return fs::is_regular_file(rank_file(path, kOptimizer, rank));
  });
  for (const int64_t rank : ranks) {
    files.parts.push_back({rank_file(path, kModel, rank), {"model"}, rank});
    if (optimizer) files.parts.push_back({rank_file(path, kOptimizer, rank), {"optimizer"}, rank});
  }
  return stored::open_torch_files(std::move(files));
}

}  // namespace

std::optional<int64_t> trainer_step(const fs::path& folder) {
  const fs::path file = folder / kTrainerState;
  if (!fs::is_regular_file(file)) return std::nullopt;
  Diagnostics found;
  const auto json = parse_json(read_file(file), file.string(), found);
  if (!json || !json->is_object()) return std::nullopt;
  const auto step = json->find("global_step");
  if (step == json->end() || !step->is_number_integer()) return std::nullopt;
  return step->get<int64_t>();
}

bool is_accelerate_folder(const fs::path& path) {
  return stored::is_dcp_source(path / kModel) || !ranks_of(path).empty();
}

std::unique_ptr<stored::TensorSource> open_accelerate_folder(const fs::path& path,
                                                             stored::OnDamage damage) {
  const std::vector<fs::path> configs = {path, fs::absolute(path).lexically_normal().parent_path()};
  if (!stored::is_dcp_source(path / kModel)) {
    return open_rank_files(path, stored::find_hub_config(configs).file, damage);
  }
  auto states = stored::is_dcp_source(path / kOptimizer)
                    ? stored::open_dcp_source(path / kOptimizer)
                    : nullptr;
  return pair_up({"accelerate", path, stored::find_hub_config(configs).file, trainer_step(path)},
                 stored::open_dcp_source(path / kModel), std::move(states));
}

}  // namespace am::frameworks
