#include <map>

#include "am/base/text.h"
#include "am/inspect/commands/by_layer.h"
#include "am/inspect/commands/registry.h"
#include "am/inspect/layers.h"
#include "am/inspect/rows.h"
#include "am/inspect/scan.h"

namespace am::inspect {

bool by_layer(const Arguments& arguments) {
  const auto found = arguments.options.find("--by");
  if (found == arguments.options.end() || found->second == "parameter") return false;
  if (found->second == "layer") return true;
  throw Error(ErrorKind::kUsage, cat("--by `", found->second, "`: parameter or layer"));
}

namespace {

Json norms_row(const std::string& name, const Moments& moments) {
  const bool any = moments.finite() > 0 || moments.numel == 0;  // nothing has a norm of 0
  return {{"name", name},
          {"numel", moments.numel},
          {"l1", any ? Json(moments.absolutes) : Json(nullptr)},
          {"l2", any ? Json(moments.norm()) : Json(nullptr)},
          {"max", number_or_null(moments.max_abs())},
          {"rms", number_or_null(moments.rms())},
          {"nan", moments.nan},
          {"inf", moments.inf}};
}

Result run_norms(Session& session, const Arguments& arguments) {
  const bool folded = by_layer(arguments);
  std::vector<std::string> names;  // in the order in which they come
  std::map<std::string, Moments> moments;
  Moments total;
  for (const Picked& picked : pick_all(session, arguments.words)) {
    const std::string name = folded ? layer_of(picked.parameter->name) : picked.label;
    if (!moments.contains(name)) names.push_back(name);
    const Moments own = moments_of(session, picked);
    moments[name].merge(own);
    total.merge(own);
  }
  constexpr auto kNumber = RowKind::kNumber;
  Rows rows({{"name", {}, RowKind::kText},
             {"l1", "L1", kNumber},
             {"l2", "L2", kNumber},
             {"max", "max |x|", kNumber},
             {"rms", {}, kNumber},
             {"nan", {}, RowKind::kCount},
             {"inf", {}, RowKind::kCount}});
  for (const std::string& name : names) rows.add(norms_row(name, moments.at(name)));
  Result result;
  rows.give(result, "norms", session);
  result.json["total"] = norms_row("total", total);
  rows.add(result.json["total"]);
  Result with_total;
  rows.give(with_total, "norms", session);
  result.text = with_total.text;
  return result;
}

constexpr Option kNormsOptions[] = {{"--by", "WHAT", "parameter, or layer: a row a layer"}};

}  // namespace

const Command kNormsCommand = {
    .name = "norms",
    .operands = "[NAMES]",
    .summary = "L1, L2, largest magnitude and root mean square, and those of all together",
    .help =
        "Of the finite values; NaN and infinities are counted beside them. Sums run in double, and "
        "each rank adds\n"
        "those of its shard.\n"
        "Examples:  norms *q_proj.weight\n"
        "           norms --by layer\n"
        "JSON: norms, each with name, numel, l1, l2, max, rms, nan, inf; total, the same.",
    .completes = Operand::kModule,
    .max_words = Command::kAnyNumber,
    .options = kNormsOptions,
    .run = run_norms,
};

}  // namespace am::inspect
