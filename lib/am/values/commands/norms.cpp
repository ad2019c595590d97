#include "am/base/text.h"
#include "am/values/commands/by_layer.h"
#include "am/values/commands/functions.h"

namespace am::values {
namespace {

Json norms_row(const std::string& name, const Moments& moments) {
  const bool any = moments.finite() > 0 || moments.numel == 0;  // an empty tensor has a norm of 0
  return {{"name", name},
          {"numel", moments.numel},
          {"l1", any ? Json(moments.absolutes) : Json(nullptr)},
          {"l2", any ? Json(moments.norm()) : Json(nullptr)},
          {"max", number_or_null(moments.max_abs())},
          {"rms", number_or_null(moments.rms())},
          {"nan", moments.nan},
          {"inf", moments.inf}};
}

}  // namespace

Result run_norms(Session& session, const Arguments& arguments) {
  const MomentRows all = named_moments(session, arguments);
  constexpr auto kNumber = RowKind::kNumber;
  Rows rows({{"name", {}, RowKind::kText},
             {"l1", "L1", kNumber},
             {"l2", "L2", kNumber},
             {"max", "max |x|", kNumber},
             {"rms", {}, kNumber},
             {"nan", {}, RowKind::kCount},
             {"inf", {}, RowKind::kCount}});
  for (const auto& [name, moments] : all.rows) rows.add(norms_row(name, moments));
  const Json together = norms_row("total", all.total);
  rows.add(together);
  Result result;
  rows.give(result, "norms", session);
  result.json["norms"].erase(all.rows.size());
  result.json["total"] = together;
  all.unread.give(result);
  return result;
}

}  // namespace am::values
