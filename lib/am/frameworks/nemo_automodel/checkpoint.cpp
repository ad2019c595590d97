#include "am/frameworks/nemo_automodel/checkpoint.h"

#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/frameworks/paired_source.h"
#include "am/stored/dcp_source.h"
#include "am/stored/hf_shards_source.h"
#include "am/stored/hf_source.h"
#include "am/stored/hub_config.h"

namespace am::frameworks {

namespace fs = std::filesystem;

namespace {

constexpr const char* kIncomplete = ".incomplete";
constexpr const char* kNewest = "LATEST";  // name of the symbolic link to the newest checkpoint

// Opens the weights. If the folder has both the shards of ranks and a consolidated copy, opens the
// shards.
std::unique_ptr<stored::TensorSource> open_model(const fs::path& folder,
                                                 const std::vector<fs::path>& configs,
                                                 stored::OnDamage damage) {
  if (stored::is_hf_shards_source(folder))
    return stored::open_hf_shards_source(folder, configs, damage);
  for (const fs::path& each : {folder, folder / "consolidated"}) {
    if (fs::is_directory(each) && stored::is_hf_source(each))
      return stored::open_hf_source(each, damage);
  }
  if (stored::is_dcp_source(folder)) return stored::open_dcp_source(folder);
  throw Error(ErrorKind::kFormat, cat(folder.string(), ": holds no weights"),
              "expected shard-*.safetensors or consolidated/, as NeMo AutoModel writes them");
}

bool is_step(const fs::path& path) {
  const fs::path model = path / "model";
  if (!fs::is_directory(model)) return false;
  const bool states = stored::is_dcp_source(path / "optim") || fs::exists(path / kIncomplete) ||
                      fs::exists(path / "losses.json") || fs::exists(path / "config.yaml");
  return states && (stored::is_hf_shards_source(model) || stored::is_hf_source(model) ||
                    stored::is_dcp_source(model) || fs::is_directory(model / "consolidated") ||
                    fs::exists(path / kIncomplete));
}

std::unique_ptr<stored::TensorSource> open_step(const fs::path& path, stored::OnDamage damage) {
  const bool incomplete = fs::exists(path / kIncomplete);
  if (incomplete && damage == stored::OnDamage::kRefuse) {
    throw Error(
        ErrorKind::kFormat,
        cat(path.string(),
            ": NeMo AutoModel did not finish this checkpoint: the folder has a file ", kIncomplete),
        "open the earlier checkpoint that LATEST names");
  }
  const fs::path model = path / "model";
  const std::vector<fs::path> configs = {model / ".hf_metadata", model / "consolidated", model,
                                         path};
  auto weights = open_model(model, configs, damage);
  auto states =
      stored::is_dcp_source(path / "optim") ? stored::open_dcp_source(path / "optim") : nullptr;
  std::vector<stored::StoredProblem> known;
  if (incomplete) known.push_back({kIncomplete, "NeMo AutoModel did not finish this checkpoint"});
  return pair_up({.format = "automodel",
                  .folder = path,
                  .config_file = stored::find_hub_config(configs).file,
                  .damage = std::move(known)},
                 std::move(weights), std::move(states));
}

}  // namespace

bool is_automodel_folder(const fs::path& path) {
  const fs::path newest = path / kNewest;
  return is_step(fs::is_directory(newest) ? newest : path);
}

std::unique_ptr<stored::TensorSource> open_automodel_folder(const fs::path& path,
                                                            stored::OnDamage damage) {
  const fs::path newest = path / kNewest;
  return open_step(fs::is_directory(newest) ? fs::canonical(newest) : path, damage);
}

}  // namespace am::frameworks
