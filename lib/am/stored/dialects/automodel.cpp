#include "am/stored/dialects/automodel.h"

#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/stored/dcp_source.h"
#include "am/stored/dialects/hub_config.h"
#include "am/stored/dialects/paired_source.h"
#include "am/stored/hf_shards_source.h"
#include "am/stored/hf_source.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

constexpr const char* kIncomplete = ".incomplete";
constexpr const char* kNewest = "LATEST";  // a link

// The newest parts: a consolidated copy may be of all ranks' shards, which lie beside it.
std::unique_ptr<TensorSource> open_model(const fs::path& folder,
                                         const std::vector<fs::path>& configs, Damage damage) {
  if (is_hf_shards_source(folder)) return open_hf_shards_source(folder, configs, damage);
  for (const fs::path& each : {folder, folder / "consolidated"}) {
    if (fs::is_directory(each) && is_hf_source(each)) return open_hf_source(each, damage);
  }
  if (is_dcp_source(folder)) return open_dcp_source(folder);
  throw Error(ErrorKind::kFormat, cat(folder.string(), ": holds no weights"),
              "NeMo AutoModel writes shard-*.safetensors or consolidated/ there");
}

bool is_step(const fs::path& path) {
  const fs::path model = path / "model";
  if (!fs::is_directory(model)) return false;
  const bool states = is_dcp_source(path / "optim") || fs::exists(path / kIncomplete) ||
                      fs::exists(path / "losses.json") || fs::exists(path / "config.yaml");
  return states && (is_hf_shards_source(model) || is_hf_source(model) || is_dcp_source(model) ||
                    fs::is_directory(model / "consolidated") || fs::exists(path / kIncomplete));
}

std::unique_ptr<TensorSource> open_step(const fs::path& path, Damage damage) {
  const bool incomplete = fs::exists(path / kIncomplete);
  if (incomplete && damage == Damage::kRefused) {
    throw Error(
        ErrorKind::kFormat,
        cat(path.string(), ": NeMo AutoModel did not finish it: it has a file ", kIncomplete),
        "open an earlier checkpoint, which LATEST names");
  }
  const fs::path model = path / "model";
  const std::vector<fs::path> configs = {model / ".hf_metadata", model / "consolidated", model,
                                         path};
  auto weights = open_model(model, configs, damage);
  auto states = is_dcp_source(path / "optim") ? open_dcp_source(path / "optim") : nullptr;
  std::vector<StoredProblem> known;
  if (incomplete) known.push_back({kIncomplete, "NeMo AutoModel did not finish this checkpoint"});
  return pair_up({.format = "automodel",
                  .folder = path,
                  .config_file = find_hub_config(configs).file,
                  .damage = std::move(known)},
                 std::move(weights), std::move(states));
}

}  // namespace

bool is_automodel_folder(const fs::path& path) {
  const fs::path newest = path / kNewest;
  return is_step(fs::is_directory(newest) ? newest : path);
}

std::unique_ptr<TensorSource> open_automodel_folder(const fs::path& path, Damage damage) {
  const fs::path newest = path / kNewest;
  return open_step(fs::is_directory(newest) ? fs::canonical(newest) : path, damage);
}

}  // namespace am::stored
