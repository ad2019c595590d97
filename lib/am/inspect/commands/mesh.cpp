#include "am/inspect/commands/table.h"
#include "am/inspect/facts.h"
#include "am/inspect/render.h"

namespace am::inspect {
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

}  // namespace am::inspect
