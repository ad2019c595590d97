#include <filesystem>
#include <optional>
#include <utility>

#include "am/base/text.h"
#include "am/config/plan.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/facts.h"
#include "am/inspect/stored_files.h"
#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/stored/fit.h"
#include "am/stored/hub_names.h"
#include "am/term/table.h"

namespace am::inspect {
namespace {

namespace fs = std::filesystem;

template <typename T>
T require_valid(std::optional<T> value, const Diagnostics& found, const fs::path& path) {
  if (value && found.ok()) return *std::move(value);
  throw Error(ErrorKind::kPlan, cat(path.string(), ": ", first_error(found)));
}

// The model with which the stored tensors are compared. If the user names a config.json or its
// folder instead of a plan, `plan` gets a mesh of one rank. The mesh does not affect the names and
// shapes of the model's parameters.
struct Wanted {
  config::Plan plan;
  model::ModelConfig config;
};

Wanted wanted_by(const fs::path& path) {
  Diagnostics found;
  Wanted wanted;
  fs::path config = fs::is_directory(path) ? path / "config.json" : path;
  if (path.extension() == ".toml") {
    auto plan = config::load_plan(path, {}, found);
    wanted.plan = require_valid(std::move(plan), found, path);
    config = wanted.plan.resolve(wanted.plan.model.path);
  } else {
    wanted.plan.strategy = config::DDPConfig{};
    wanted.plan.mesh.world_size = 1;
  }
  auto loaded = model::load_config(config, found);
  wanted.config = require_valid(std::move(loaded), found, config);
  return wanted;
}

}  // namespace

Result run_fits(Session& session, const Arguments& arguments) {
  const stored::TensorSource& source = require_files(session, "fits");
  const fs::path path = session.path(arguments.words.front());
  if (!fs::exists(path)) {
    throw Error(ErrorKind::kIo, cat(path.string(), ": no such file or folder"));
  }
  const Wanted wanted = wanted_by(path);
  Diagnostics found;
  auto built = layout::build_layout(wanted.plan, wanted.config, mesh::MeshSizes{}, found);
  const layout::Layout layout = require_valid(std::move(built), found, path);
  const stored::HubNames named(source, layout.inventory);
  const auto misfits = stored::find_misfits(layout, wanted.config, named);
  Result result;
  result.failed = !misfits.empty();
  Json list = Json::array();
  term::Table table({{"name"}, {"what"}});
  for (const stored::Misfit& each : misfits) {
    list.push_back({{"name", each.name}, {"what", each.what}});
    table.add({each.name, each.what});
  }
  result.json["misfits"] = list;
  result.text = misfits.empty()
                    ? cat(layout.parameters.size(), " parameters of ", path.string(), ": all fit\n")
                    : cat(table.text(session.style()), source.path().string(), ": does not fit ",
                          path.string(), "\n");
  return result;
}

}  // namespace am::inspect
