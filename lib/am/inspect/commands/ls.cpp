#include <algorithm>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/layers.h"
#include "am/inspect/optimizer_states.h"
#include "am/inspect/pick.h"
#include "am/inspect/rows.h"

namespace am::inspect {
namespace {

// Returns whether the pattern matches the name of a stored value that is not a tensor. The pattern
// is the name, a glob, or a prefix of the name up to a dot; "" and "all" match every name.
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

// Folds the rows of equal layers: one row replaces the rows of parameters with equal shape and
// dtype whose names differ only in their numbers. The size in this row is the sum of the
// parameters' sizes.
Json folded(const Json& rows) {
  std::vector<NamedRow> named;
  for (const Json& row : rows) {
    named.push_back({row.at("name"), cat(dump_json(row.at("shape"), -1), row.at("dtype"))});
  }
  Json out = Json::array();
  for (const NamedRow& fold : fold_numbers(named)) {
    Json row = rows.at(fold.members.front());
    if (fold.members.size() > 1) {
      row["name"] = fold.name;
      row["shape"] = cat(fold.members.size(), " x ", cell_text(row["shape"], RowKind::kText, 0));
      row["bytes"] = row["bytes"].get<int64_t>() * static_cast<int64_t>(fold.members.size());
    }
    out.push_back(std::move(row));
  }
  return out;
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
  Rows rows({{"name"}, {"shape"}, {"dtype"}, {"bytes", "size", RowKind::kBytes}});
  int64_t elements = 0;
  int64_t total = 0;
  for (const HeldParameter* parameter : found) {
    rows.add({{"name", parameter->name},
              {"shape", parameter->shape},
              {"dtype", formats::torch_name(parameter->dtype)},
              {"bytes", parameter->bytes()}});
    elements += parameter->numel();
    total += parameter->bytes();
  }
  if (session.style().window && !arguments.has("--flat")) {
    rows.give_shown(result, "parameters", session, folded(rows.list()));
  } else {
    rows.give(result, "parameters", session);
  }
  result.text +=
      session.style().paint(term::Role::kDim,
                            cat(found.size(), found.size() == 1 ? " parameter, " : " parameters, ",
                                format_count(elements), " elements, ", format_bytes(total))) +
      "\n";
  return result;
}

}  // namespace am::inspect
