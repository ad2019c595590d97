#include "am/inspect/rows.h"
#include "am/values/commands/registry.h"
#include "am/values/scan.h"
#include "am/values/unread.h"

namespace am::values {
namespace {

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

}  // namespace

const Command kStatsCommand = {
    .name = "stats",
    .operands = "[NAMES]",
    .summary = "min, max, mean, std, norm; how many NaN and infinities",
    .help =
        "std is torch.std's, unbiased. NaN and infinities are counted, and left out of the other "
        "numbers; all\n"
        "sums run in double. Nothing is gathered: each rank reads its shard.\n"
        "Examples:  stats *norm.weight\n"
        "           stats lm_head.weight[0:4] lm_head.weight[4:]",
    .json = "{stats: [Moments], unread?: [Unread]}",
    .completes = Operand::kModule,
    .max_words = Command::kAnyNumber,
    .run = run_stats,
};

}  // namespace am::values
