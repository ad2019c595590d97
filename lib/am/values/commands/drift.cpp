#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <optional>

#include "am/base/text.h"
#include "am/inspect/layers.h"
#include "am/values/commands/by_layer.h"
#include "am/values/commands/functions.h"
#include "am/values/on_threads.h"
#include "am/values/pairs.h"
#include "am/values/two_sources.h"
#include "am/values/unread.h"

namespace am::values {
namespace {

using stored::StoredTensor;

Json change_row(const std::string& name, const Change& change) {
  const double relative = change.moved == 0.0 ? 0.0 : std::sqrt(change.moved / change.before);
  return {{"name", name},
          {"relative", number_or_null(relative)},
          {"moved", number_or_null(std::sqrt(change.moved))},
          {"before", number_or_null(std::sqrt(change.before))},
          {"after", number_or_null(std::sqrt(change.after))},
          {"cosine", number_or_null(change.dot / std::sqrt(change.before * change.after))}};
}

// Returns the sums over one tensor, which is `a` in `from` and `b` in `to`. If one side is a model
// in the memory of ranks, sums only over this rank's parts of the tensor.
Change change_of(Session& session, const Side& from, const StoredTensor& a, const Side& to,
                 const StoredTensor& b) {
  FoundInOrder<Change> of_blocks;
  for_each_pair(session, from, a, to, b,
                [&](size_t number, const at::Tensor& before, const at::Tensor& after) {
                  Change found;
                  found.add(before, after);
                  of_blocks.add(number, found);
                  return true;
                });
  Change change;
  for (const auto& [number, found] : of_blocks.all()) change.add(found);
  return change;
}

}  // namespace

Result run_drift(Session& session, const Arguments& arguments) {
  const at::NoGradGuard no_grad;
  const bool folded = by_layer(arguments);
  ParameterView& view = values_of(session);
  Rows rows({{"name", {}, RowKind::kText},
             {"relative", "|b - a| / |a|", RowKind::kNumber},
             {"moved", "|b - a|", RowKind::kNumber},
             {"before", "|a|", RowKind::kNumber},
             {"after", "|b|", RowKind::kNumber},
             {"cosine", {}, RowKind::kNumber}});
  std::map<std::string, Change> changes;
  std::vector<std::string> names;
  std::vector<std::string> left_out;
  Change total;
  std::optional<Unread> unread;
  bool of_files = false;              // whether both sides are files
  std::vector<std::string> compared;  // names of the tensors that were read
  const auto compare = [&] {
    const Side from = Side::at(session.path(arguments.words.front()));
    const Side to =
        arguments.words.size() > 1 ? Side::at(session.path(arguments.words[1])) : opened(session);
    of_files = to.files() != nullptr;
    unread.emplace(session, from.tensors().size());
    session.expect_bytes(bytes_of(from));
    std::vector<double> sums;
    for (const StoredTensor& a : from.tensors()) {
      const StoredTensor* b = to.find(a.name);
      if (b == nullptr || b->shape != a.shape) {
        left_out.push_back(a.name);
        session.saw_bytes(a.bytes());
        continue;
      }
      Change change;
      if (!unread->read(a.name, [&] { change = change_of(session, from, a, to, *b); })) continue;
      compared.push_back(a.name);
      sums.insert(sums.end(), {change.moved, change.before, change.dot, change.after});
    }
    for (const StoredTensor& b : to.tensors()) {
      if (from.find(b.name) == nullptr) left_out.push_back(b.name);
    }
    return sums;
  };
  auto ranks = on_all_ranks(view, compare);
  session.check_interrupt();
  if (of_files) ranks.resize(1);  // each rank's sums already cover both checkpoints as a whole
  for (size_t i = 0; i < compared.size(); ++i) {
    Change change;
    for (const std::vector<double>& rank : ranks) {
      change.add({rank[4 * i], rank[4 * i + 1], rank[4 * i + 2], rank[4 * i + 3]});
    }
    const std::string name = folded ? inspect::layer_of(compared[i]) : compared[i];
    if (!changes.contains(name)) names.push_back(name);
    changes[name].add(change);
    total.add(change);
  }
  for (const std::string& name : names) rows.add(change_row(name, changes.at(name)));
  rows.sort_down("relative");
  Result result;
  rows.give(result, "parameters", session);
  result.json["total"] = change_row("total", total);
  result.json["left_out"] = left_out;
  const Json& all = result.json["total"];
  const int digits = session.digits();
  result.text +=
      cat("total: |b - a| / |a| = ", inspect::cell_text(all["relative"], RowKind::kNumber, digits),
          ", |a| = ", inspect::cell_text(all["before"], RowKind::kNumber, digits), "\n");
  if (!left_out.empty()) {
    result.text +=
        cat(left_out.size(),
            " left out, because only one side has them or shapes differ: `diff` lists them\n");
  }
  unread->give(result);
  return result;
}

}  // namespace am::values
