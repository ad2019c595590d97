#include "am/inspect/commands/registry.h"
#include "am/inspect/facts.h"
#include "am/inspect/render.h"

namespace am::inspect {
namespace {

Result run_mesh(Session& session, const Arguments&) {
  const mesh::MeshLayout& layout = session.view().mesh();
  Result result;
  add_mesh(layout, result.json);
  Json groups = Json::object();
  for (const std::string_view name : mesh::kGroupNames) {
    if (name != "world") groups[std::string(name)] = layout.groups(name);
  }
  result.json["groups"] = groups;
  result.text = draw_mesh(layout, session.style());
  return result;
}

}  // namespace

const Command kMeshCommand = {
    .name = "mesh",
    .operands = "",
    .summary = "the mesh of ranks, and its groups",
    .help =
        "For a checkpoint it is the mesh that wrote it; a Hugging Face folder counts as one rank.",
    .json =
        "{world_size: integer, mesh: Mesh, groups: {*: [[integer]]} (as `am-plan show` gives "
        "them)}",
    .run = run_mesh,
};

}  // namespace am::inspect
