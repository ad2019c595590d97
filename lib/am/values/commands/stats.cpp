#include "am/values/commands/functions.h"
#include "am/values/scan.h"
#include "am/values/unread.h"

namespace am::values {
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
  for (const Picked& picked : all) {
    unread.read(picked.label,
                [&] { rows.add(moments_json(picked.label, moments_of(session, picked))); });
  }
  Result result;
  rows.give(result, "stats", session);
  unread.give(result);
  return result;
}

}  // namespace am::values
