// Defines the commands that run in the console, not on ranks. Also defines `let`, which gives
// tensors a short name.
#include "am/inspect/console.h"

#include "am/base/home.h"
#include "am/base/text.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/pick.h"
#include "am/inspect/rows.h"

namespace am::inspect {
namespace {

bool is_alias_name(const std::string& name) {
  const bool begins = !name.empty() && (name.front() < '0' || name.front() > '9');
  return begins && name.find_first_not_of(
                       "abcdefghijklmnopqrstuvwxyz"
                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
}

Result list_aliases(const Session& session) {
  Rows rows({{"name", {}, RowKind::kText}, {"stands_for", "names", RowKind::kText}});
  for (const auto& [name, words] : session.aliases()) {
    rows.add({{"name", name}, {"stands_for", join(words, " ")}});
  }
  Result result;
  rows.give(result, "aliases", session);
  return result;
}

}  // namespace

Result run_mode(Console& console, const Arguments& arguments) {
  const std::string& name = arguments.words.front();
  const auto mode = parse_output_mode(name);
  if (!mode)
    throw Error(ErrorKind::kUsage,
                cat("`", name, "` is not an output mode: use table, json, csv or md"));
  console.set_mode(*mode);
  Result result;
  result.json["mode"] = name;
  return result;
}

Result run_output(Console& console, const Arguments& arguments) {
  const bool ends = arguments.words.empty() || arguments.words.front() == "-";
  console.set_output(ends ? std::filesystem::path() : expand_home(arguments.words.front()),
                     arguments.has("--force"));
  Result result;
  result.json["output"] = ends ? Json(nullptr) : Json(arguments.words.front());
  return result;
}

Result run_source(Console& console, const Arguments& arguments) {
  return console.source(expand_home(arguments.words.front()));
}

Result run_report(Console& console, const Arguments& arguments) {
  return console.report(expand_home(arguments.words.front()), arguments.has("--force"));
}

Result run_dashboard(Console& console, const Arguments&) { return console.dashboard(); }

Result run_let(Session& session, const Arguments& arguments) {
  if (arguments.words.empty()) return list_aliases(session);
  const std::string& name = arguments.words.front();
  if (arguments.words.size() < 3 || arguments.words[1] != "=" || !is_alias_name(name)) {
    throw Error(ErrorKind::kUsage, "`let` needs NAME = NAMES",
                "let w = model.norm.weight[0:4]; a name consists of letters, digits and _, and "
                "does not begin with a digit");
  }
  const std::vector<std::string> words(arguments.words.begin() + 2, arguments.words.end());
  // Full names of the tensors, with their slices. Names that `let` defined earlier are resolved
  // here, so that no definition can refer to itself.
  std::vector<std::string> labels;
  for (const Picked& picked : pick_all(session, words)) labels.push_back(picked.label);
  Result result;
  result.json = {{"name", name}, {"stands_for", join(labels, " ")}, {"tensors", labels.size()}};
  session.set_alias(name, std::move(labels));
  return result;
}

}  // namespace am::inspect
