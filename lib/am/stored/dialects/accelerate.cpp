#include "am/stored/dialects/accelerate.h"

#include <optional>
#include <utility>
#include <vector>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/stored/dcp_source.h"
#include "am/stored/dialects/hub_config.h"
#include "am/stored/dialects/paired_source.h"

namespace am::stored {

namespace fs = std::filesystem;

namespace {

// A second model of one job is _1.
constexpr const char* kModel = "pytorch_model_fsdp_0";
constexpr const char* kOptimizer = "optimizer_0";
// The Trainer's; accelerate alone writes none.
constexpr const char* kTrainerState = "trainer_state.json";

std::optional<int64_t> step_of(const fs::path& folder) {
  const fs::path file = folder / kTrainerState;
  if (!fs::is_regular_file(file)) return std::nullopt;
  Diagnostics found;
  const auto json = parse_json(read_file(file), file.string(), found);
  if (!json || !json->is_object()) return std::nullopt;
  const auto step = json->find("global_step");
  if (step == json->end() || !step->is_number_integer()) return std::nullopt;
  return step->get<int64_t>();
}

}  // namespace

bool is_accelerate_folder(const fs::path& path) { return is_dcp_source(path / kModel); }

std::unique_ptr<TensorSource> open_accelerate_folder(const fs::path& path) {
  const std::vector<fs::path> configs = {path, fs::absolute(path).lexically_normal().parent_path()};
  auto states = is_dcp_source(path / kOptimizer) ? open_dcp_source(path / kOptimizer) : nullptr;
  return pair_up({"accelerate", path, find_hub_config(configs).file, step_of(path)},
                 open_dcp_source(path / kModel), std::move(states));
}

}  // namespace am::stored
