#include <algorithm>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/facts.h"
#include "am/inspect/render.h"

namespace am::inspect {
namespace {

std::string fact_text(const std::string& key, const Json& value) {
  if (key == "bytes") return format_bytes(value.get<int64_t>());
  if (value.is_number_integer()) return format_count(value.get<int64_t>());
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "unknown";
  return value.dump();
}

// Adds one line of text for each problem of a damaged checkpoint, up to kMostShown.
void add_damage(const Json& problems, std::vector<std::pair<std::string, std::string>>& facts) {
  constexpr size_t kMostShown = 6;
  for (size_t i = 0; i < std::min(problems.size(), kMostShown); ++i) {
    const Json& problem = problems[i];
    facts.emplace_back(i == 0 ? "damage" : "", cat(problem["where"].get<std::string>(), ": ",
                                                   problem["what"].get<std::string>()));
  }
  if (problems.size() <= kMostShown) return;
  facts.emplace_back("", cat("and ", problems.size() - kMostShown, " more; `verify` lists them"));
}

}  // namespace

Result run_info(Session& session, const Arguments&) {
  Result result;
  result.json = session.view().info();
  std::vector<std::pair<std::string, std::string>> facts;
  for (const auto& [key, value] : result.json.items()) {
    if (key == "damage") {
      add_damage(value, facts);
    } else if (key == "mesh") {
      const std::string axes = mesh_text(session.view().mesh());
      facts.emplace_back("mesh", axes.empty() ? "one rank" : axes);
    } else {
      std::string label = key;
      for (char& c : label) c = c == '_' ? ' ' : c;
      facts.emplace_back(label, fact_text(key, value));
    }
  }
  result.text = draw_facts(facts, session.style());
  return result;
}

}  // namespace am::inspect
