#include <string>
#include <vector>

#include "am/inspect/layers.h"
#include "am/values/commands/functions.h"
#include "am/values/moments.h"
#include "am/values/scan.h"
#include "am/values/unread.h"

namespace am::values {
namespace {

struct TensorMoments {
  std::string name;
  Moments moments;
};

// Returns rows of statistics. Tensors whose names differ only in numbers share one row, with the
// statistics of all their values together. A tensor with NaN or infinities has its own row.
Json folded(const std::vector<TensorMoments>& all) {
  std::vector<inspect::NamedRow> named;
  for (const auto& [name, moments] : all) {
    named.push_back({name, moments.finite() < moments.numel ? name : ""});
  }
  Json rows = Json::array();
  for (const inspect::NamedRow& fold : inspect::fold_numbers(named)) {
    Moments sum;
    for (const size_t member : fold.members) sum.merge(all[member].moments);
    rows.push_back(moments_json(fold.name, sum));
  }
  return rows;
}

}  // namespace

Result run_stats(Session& session, const Arguments& arguments) {
  constexpr auto kNumber = RowKind::kNumber;
  constexpr auto kCount = RowKind::kCount;
  Rows rows({{"name", {}, RowKind::kText},
             {"numel", {}, kCount},
             {"min", {}, kNumber},
             {"max", {}, kNumber},
             {"mean", {}, kNumber},
             {"std", {}, kNumber},
             {"norm", {}, kNumber},
             {"nan", {}, kCount},
             {"inf", {}, kCount}});
  const std::vector<Picked> all = pick_all(session, arguments.words);
  Unread unread(session, all.size());
  session.expect_bytes(bytes_of(all));
  std::vector<TensorMoments> read;
  for (const Picked& picked : all) {
    unread.read(picked.label, [&] {
      read.push_back({picked.label, moments_of(session, picked)});
      rows.add(moments_json(picked.label, read.back().moments));
    });
  }
  Result result;
  if (session.style().window && !arguments.has("--flat")) {
    rows.give_shown(result, "stats", session, folded(read));
  } else {
    rows.give(result, "stats", session);
  }
  unread.give(result);
  return result;
}

}  // namespace am::values
