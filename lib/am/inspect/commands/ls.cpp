#include <algorithm>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/optimizer_states.h"
#include "am/inspect/pick.h"
#include "am/inspect/rows.h"
#include "am/term/table.h"

namespace am::inspect {
namespace {

// Returns whether the pattern matches the name of a stored value that is not a tensor. The pattern
// is the name, a glob, or a prefix of the name up to a dot.
bool names_value(const std::string& pattern, const std::string& name) {
  return pattern.empty() || pattern == "all" || pattern == name || glob_match(pattern, name) ||
         starts_with(name, cat(pattern, "."));
}

Result list_values(Session& session, const Arguments& arguments) {
  Rows rows({{"name", {}, RowKind::kText}, {"value", {}, RowKind::kText}});
  const TensorCatalog& view = session.view();
  for (const std::string& name : view.value_names()) {
    const bool named = arguments.words.empty() ||
                       std::any_of(arguments.words.begin(), arguments.words.end(),
                                   [&](const auto& word) { return names_value(word, name); });
    if (named) rows.add({{"name", name}, {"value", view.value(name)}});
  }
  if (rows.list().empty()) {
    throw Error(ErrorKind::kUsage,
                view.value_names().empty()
                    ? "the target stores no values besides tensors"
                    : "no stored value has this name; `ls --values` lists the names");
  }
  Result result;
  rows.give(result, "values", session);
  return result;
}

std::vector<const HeldParameter*> listed(const Session& session, const Arguments& arguments) {
  std::vector<const HeldParameter*> found;
  const bool states = arguments.has("--optimizer");
  if (states && arguments.words.empty()) {
    for (const HeldParameter& state : session.view().states()) found.push_back(&state);
  }
  for (const std::string& word : arguments.words) {
    // With --optimizer, the name of a parameter selects its optimizer states.
    if (states && !starts_with(word, "optim")) {
      for (const HeldParameter* state : states_of(session, word)) found.push_back(state);
    } else {
      for (const Picked& picked : pick_all(session, {word})) found.push_back(picked.parameter);
    }
  }
  if (states && found.empty()) {
    throw Error(ErrorKind::kUsage, "the target stores no optimizer state");
  }
  return found.empty() ? session.matching("") : found;
}

}  // namespace

Result run_ls(Session& session, const Arguments& arguments) {
  if (arguments.has("--values")) return list_values(session, arguments);
  const auto found = listed(session, arguments);
  Result result;
  Json list = Json::array();
  std::vector<int64_t> bytes;
  int64_t elements = 0;
  int64_t total = 0;
  for (const HeldParameter* parameter : found) {
    list.push_back({{"name", parameter->name},
                    {"shape", parameter->shape},
                    {"dtype", formats::torch_name(parameter->dtype)},
                    {"bytes", parameter->bytes()}});
    bytes.push_back(parameter->bytes());
    elements += parameter->numel();
    total += parameter->bytes();
  }
  term::Table table({{"name"}, {"shape"}, {"dtype"}, {"size", term::Align::kRight}});
  for (size_t i = 0; i < found.size(); ++i) {
    table.add({found[i]->name, shape_text(found[i]->shape), formats::torch_name(found[i]->dtype),
               format_bytes(bytes[i])});
  }
  result.json["parameters"] = list;
  result.text =
      table.text(session.style()) +
      session.style().paint(term::Role::kDim,
                            cat(found.size(), found.size() == 1 ? " parameter, " : " parameters, ",
                                format_count(elements), " elements, ", format_bytes(total))) +
      "\n";
  return result;
}

}  // namespace am::inspect
