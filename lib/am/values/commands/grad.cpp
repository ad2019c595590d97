#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/text_argument.h"
#include "am/values/commands/functions.h"
#include "am/values/language.h"
#include "am/values/scan.h"

namespace am::values {
namespace {

// Returns the gradients of the picked parameters, each with the slice of its parameter. Omits
// frozen parameters, which have no gradient.
std::vector<Picked> gradients_of(const Session& session, const std::vector<Picked>& parameters) {
  const auto states = session.view().states();
  std::vector<Picked> gradients;
  for (const Picked& picked : parameters) {
    const std::string name = starts_with(picked.parameter->name, kGradientPrefix)
                                 ? picked.parameter->name
                                 : cat(kGradientPrefix, picked.parameter->name);
    const auto state = std::lower_bound(states.begin(), states.end(), name,
                                        [](const HeldParameter& each, const std::string& key) {
                                          return natural_less(each.name, key);
                                        });
    if (state == states.end() || state->name != name) continue;
    Picked gradient = picked;
    gradient.parameter = &*state;
    gradients.push_back(std::move(gradient));
  }
  return gradients;
}

}  // namespace

Result run_grad(Session& session, const Arguments& arguments) {
  ParameterView& view = values_of(session);
  Result result;
  pick_all(session, arguments.words);  // a wrong name throws here, before gradients are computed
  if (arguments.has("--of")) {
    const inspect::TextArgument text = inspect::text_or_file(session, arguments.value("--of", ""));
    prepare_model(session, arguments.has("--force"), /*backward=*/true);
    const std::vector<int64_t> ids = encode(session, text.text);
    result.json["loss"] = mean_loss_gradients(session, ids);
    result.json["tokens"] = ids.size();
  }
  if (view.gradients_of().empty()) {
    throw Error(ErrorKind::kUsage, "there are no gradients yet",
                view.at_rest() ? "`grad NAMES --of TEXT` computes the gradients of a text's loss"
                               : "`step` trains a step; `grad NAMES --of TEXT` computes the "
                                 "gradients of a text's loss");
  }
  constexpr auto kNumber = RowKind::kNumber;
  Rows rows({{"name", {}, RowKind::kText},
             {"numel", {}, RowKind::kCount},
             {"min", {}, kNumber},
             {"max", {}, kNumber},
             {"mean", {}, kNumber},
             {"rms", {}, kNumber},
             {"norm", {}, kNumber},
             {"nan", {}, RowKind::kCount},
             {"inf", {}, RowKind::kCount}});
  const std::vector<Picked> parameters = pick_all(session, arguments.words);
  const std::vector<Picked> all = gradients_of(session, parameters);
  Moments total;
  for (const Picked& picked : all) {
    const Moments moments = moments_of(session, picked);
    total.merge(moments);
    Json row = moments_json(picked.label, moments);
    row["rms"] = number_or_null(moments.rms());
    rows.add(std::move(row));
  }
  const auto loss = result.json.find("loss");
  const std::string of = loss == result.json.end() ? view.gradients_of()
                                                   : cat(view.gradients_of(), ", whose loss is ",
                                                         format_fixed(loss->get<double>(), 4));
  Json facts = std::move(result.json);
  result.json = Json::object();
  rows.give(result, "gradients", session);
  result.json["of"] = view.gradients_of();
  result.json["norm"] = total.norm();
  result.json.update(facts);
  const size_t frozen = parameters.size() - all.size();
  result.text += cat("gradients ", of, "; together their norm is ",
                     format_general(total.norm(), session.digits()),
                     frozen == 0 ? "" : cat("; frozen parameters: ", frozen), "\n");
  return result;
}

}  // namespace am::values
