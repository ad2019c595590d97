#include <ATen/ATen.h>

#include <cmath>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/registry.h"
#include "am/inspect/moments.h"
#include "am/term/table.h"

namespace am::inspect {
namespace {

// Each rank looks at its own shard; only eight numbers a parameter travel. A rank that is
// interrupted leaves the rest undone, and all hear of it at the next place where they meet.
Moments moments_of(Session& session, const HeldParameter& parameter) {
  Moments own;
  const auto stopped = [&] { return session.is_interrupted(); };
  session.view().visit_own(parameter, [&](const at::Tensor& part) {
    own.add(part, stopped);
    return !stopped();
  });
  session.check_interrupt();
  at::Tensor row = at::empty({Moments::kWords}, at::TensorOptions(at::kDouble));
  const auto packed = own.pack();
  std::copy(packed.begin(), packed.end(), row.data_ptr<double>());
  const at::Tensor all = session.view().gather(row).contiguous();
  Moments total;
  for (int64_t rank = 0; rank < all.size(0); ++rank) {
    total.merge(Moments::unpack(all.const_data_ptr<double>() + rank * Moments::kWords));
  }
  return total;
}

// JSON has no NaN: null.
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const std::string& name, const Moments& moments) {
  const bool any = moments.finite() > 0;
  return {{"name", name},
          {"numel", moments.numel},
          {"min", any ? Json(moments.min) : Json(nullptr)},
          {"max", any ? Json(moments.max) : Json(nullptr)},
          {"mean", any ? Json(moments.mean) : Json(nullptr)},
          {"std", finite_or_null(moments.std())},
          {"norm", moments.norm()},
          {"nan", moments.nan},
          {"inf", moments.inf}};
}

Result run_stats(Session& session, const Arguments& arguments) {
  Result result;
  Json list = Json::array();
  constexpr auto kRight = term::Align::kRight;
  term::Table table({{"name"},
                     {"numel", kRight},
                     {"min", kRight},
                     {"max", kRight},
                     {"mean", kRight},
                     {"std", kRight},
                     {"norm", kRight},
                     {"nan", kRight},
                     {"inf", kRight}});
  const int digits = session.digits();
  for (const HeldParameter* parameter :
       session.matching(arguments.words.empty() ? "" : arguments.words.front())) {
    const Moments moments = moments_of(session, *parameter);
    list.push_back(to_json(parameter->name, moments));
    const auto number = [&](double value) {
      return std::isfinite(value) ? format_general(value, digits) : std::string("-");
    };
    table.add({parameter->name, format_count(moments.numel), number(moments.min),
               number(moments.max), number(moments.finite() > 0 ? moments.mean : NAN),
               number(moments.std()), number(moments.norm()), format_count(moments.nan),
               format_count(moments.inf)});
  }
  result.json["stats"] = list;
  result.text = table.text(session.style());
  return result;
}

}  // namespace

const Command kStatsCommand = {
    .name = "stats",
    .operands = "[PARAM|GLOB|MODULE]",
    .summary = "min, max, mean, std, norm; how many NaN and infinities",
    .help =
        "std is torch.std's, unbiased. NaN and infinities are counted, and left out of the other "
        "numbers; all\n"
        "sums run in double. Nothing is gathered: each rank looks at its shard.\n"
        "Example:  stats *norm.weight\n"
        "JSON: stats, each with name, numel, min, max, mean, std, norm, nan, inf.",
    .completes = Operand::kModule,
    .max_words = 1,
    .run = run_stats,
};

}  // namespace am::inspect
