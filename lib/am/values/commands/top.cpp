#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/inspect/optimizer_states.h"
#include "am/stored/row_blocks.h"
#include "am/values/commands/functions.h"
#include "am/values/scan.h"
#include "am/values/unread.h"

namespace am::values {
namespace {

// Returns the state of kind `kind` that has the parameter's shape, or null.
const HeldParameter* state_named(const std::vector<const HeldParameter*>& states,
                                 const HeldParameter& parameter, std::string_view kind) {
  for (const HeldParameter* state : states) {
    if (state_kind(*state, parameter) == kind && state->shape == parameter.shape) return state;
  }
  return nullptr;
}

// Returns the stored settings of Adam. The options --lr and --eps replace the stored values.
inspect::AdamSettings settings_for(const Session& session, const Arguments& arguments,
                                   const std::string& parameter) {
  auto settings = adam_settings(session, parameter);
  if (!settings && !arguments.has("--lr")) {
    throw Error(ErrorKind::kUsage, "the target stores no learning rate, which `--by update` needs",
                "give it with --lr LR");
  }
  if (!settings) settings.emplace();
  settings->lr = arguments.number("--lr", settings->lr, 0.0, 1e9);
  settings->eps = arguments.number("--eps", settings->eps, 0.0, 1e9);
  return *settings;
}

// Returns |last update| / |weights|. Adam's update is lr * m' / (sqrt(v') + eps), where
// m' = exp_avg / (1 - beta1^t) and v' = exp_avg_sq / (1 - beta2^t) after t steps. The update
// excludes weight decay, which does not depend on the gradient. Returns nullopt if the parameter
// has no states of Adam. Collective.
std::optional<double> update_ratio(Session& session, const Arguments& arguments,
                                   const HeldParameter& parameter) {
  const auto states = states_of(session, parameter);
  const HeldParameter* mean = state_named(states, parameter, "exp_avg");
  const HeldParameter* square = state_named(states, parameter, "exp_avg_sq");
  const auto step = step_of(session, parameter);
  if (mean == nullptr || square == nullptr || !step || *step < 1) return std::nullopt;
  const inspect::AdamSettings settings = settings_for(session, arguments, parameter.name);
  const double first = 1.0 - std::pow(settings.beta1, *step);
  const double second = 1.0 - std::pow(settings.beta2, *step);
  double updates = 0.0;
  double weights = 0.0;
  stored::for_each_row_block(
      mesh::Box::whole(parameter.shape), kScanBlock, [&](const mesh::Box& block) {
        session.check_interrupt();
        const at::Tensor m = to_numbers(values_of(session).read(*mean, block)) / first;
        const at::Tensor v = to_numbers(values_of(session).read(*square, block)) / second;
        updates += (settings.lr * m / (v.sqrt() + settings.eps)).square().sum().item<double>();
        weights +=
            to_numbers(values_of(session).read(parameter, block)).square().sum().item<double>();
        session.saw_bytes(block.numel() * formats::dtype_size(parameter.dtype));
      });
  return std::sqrt(updates) / std::sqrt(weights);
}

struct Measure {
  const char* name;
  RowKind kind;
  Json (*of)(Session& session, const Arguments& arguments, const HeldParameter& parameter);
};

constexpr Measure kMeasures[] = {
    {"bytes", RowKind::kBytes,
     [](Session&, const Arguments&, const HeldParameter& parameter) {
       return Json(parameter.bytes());
     }},
    {"norm", RowKind::kNumber,
     [](Session& session, const Arguments&, const HeldParameter& parameter) {
       return number_or_null(moments_of(session, whole_tensor(parameter)).norm());
     }},
    {"rms", RowKind::kNumber,
     [](Session& session, const Arguments&, const HeldParameter& parameter) {
       return number_or_null(moments_of(session, whole_tensor(parameter)).rms());
     }},
    {"max", RowKind::kNumber,
     [](Session& session, const Arguments&, const HeldParameter& parameter) {
       return number_or_null(moments_of(session, whole_tensor(parameter)).max_abs());
     }},
    {"update", RowKind::kNumber,
     [](Session& session, const Arguments& arguments, const HeldParameter& parameter) {
       const auto ratio = update_ratio(session, arguments, parameter);
       return ratio ? number_or_null(*ratio) : Json(nullptr);
     }},
};

}  // namespace

Result run_top(Session& session, const Arguments& arguments) {
  const at::NoGradGuard no_grad;
  int64_t count = 10;
  std::vector<std::string> names;
  for (const std::string& word : arguments.words) {
    const auto number = parse_integer(word);
    if (number && *number >= 1) {
      count = *number;
    } else {
      names.push_back(word);
    }
  }
  const Measure& measure = arguments.one_of(kMeasures, "--by", "bytes");
  const bool by_update = measure.name == std::string_view("update");
  if (by_update && session.view().states().empty()) {
    throw Error(ErrorKind::kUsage,
                "the target stores no optimizer state, which `--by update` needs",
                "--by bytes, norm, rms or max need only the parameters");
  }
  Rows rows({{"name", {}, RowKind::kText},
             {"shape", {}, RowKind::kText},
             {measure.name, by_update ? "|update| / |weights|" : measure.name, measure.kind}});
  const std::vector<Picked> picked_all = pick_all(session, names);
  Unread unread(session, picked_all.size());
  session.expect_bytes(bytes_of(picked_all));
  for (const Picked& picked : picked_all) {
    unread.read(picked.label, [&] {
      rows.add({{"name", picked.parameter->name},
                {"shape", picked.parameter->shape},
                {measure.name, measure.of(session, arguments, *picked.parameter)}});
    });
  }
  rows.sort_down(measure.name);
  Json& list = rows.list();
  const auto all = static_cast<int64_t>(list.size());
  const bool any = std::any_of(list.begin(), list.end(),
                               [&](const Json& row) { return !row[measure.name].is_null(); });
  if (by_update && !any) {
    throw Error(ErrorKind::kUsage,
                "no parameter here has exp_avg, exp_avg_sq and a step: updates are computed only "
                "for Adam and AdamW");
  }
  if (all > count) list.erase(list.begin() + count, list.end());
  Result result;
  rows.give(result, "parameters", session);
  if (all > count) result.text += cat(count, " of ", all, "\n");
  result.json["by"] = measure.name;
  unread.give(result);
  return result;
}

}  // namespace am::values
