#include "am/base/text.h"
#include "am/inspect/optimizer_states.h"
#include "am/values/commands/functions.h"
#include "am/values/scan.h"
#include "am/values/unread.h"

namespace am::values {
namespace {

Json optim_row(Session& session, const HeldParameter& tensor, const std::string& label) {
  Json row = moments_json(label, moments_of(session, whole_tensor(tensor)));
  row["shape"] = tensor.shape;
  row["dtype"] = formats::torch_name(tensor.dtype);
  return row;
}

}  // namespace

Result run_optim(Session& session, const Arguments& arguments) {
  if (session.view().states().empty()) {
    throw Error(ErrorKind::kUsage, "the target stores no optimizer state",
                "checkpoints of am-run store it, and folders of torch.distributed.checkpoint if "
                "the optimizer was saved too; for a plan, `step` creates it");
  }
  constexpr auto kNumber = RowKind::kNumber;
  Rows rows({{"label", "name", RowKind::kText},
             {"shape", {}, RowKind::kText},
             {"dtype", {}, RowKind::kText},
             {"step", {}, RowKind::kCount},
             {"min", {}, kNumber},
             {"max", {}, kNumber},
             {"mean", {}, kNumber},
             {"std", {}, kNumber},
             {"norm", {}, kNumber}});
  Json list = Json::array();
  const std::vector<Picked> all = pick_all(session, arguments.words);
  Unread unread(session, all.size());
  int64_t bytes = bytes_of(all);
  std::vector<std::vector<const HeldParameter*>> states;  // the optimizer states of each tensor
  for (const Picked& picked : all) {
    states.push_back(states_of(session, *picked.parameter));
    for (const HeldParameter* state : states.back()) bytes += state->bytes();
  }
  session.expect_bytes(bytes);
  const auto add = [&](const HeldParameter& parameter,
                       const std::vector<const HeldParameter*>& of_parameter) {
    Json entry = optim_row(session, parameter, parameter.name);
    const auto step = step_of(session, parameter);
    entry["step"] = step ? Json(static_cast<int64_t>(*step)) : Json(nullptr);
    Json shown = entry;
    shown["label"] = parameter.name;
    rows.add(std::move(shown));
    entry["states"] = Json::array();
    for (const HeldParameter* state : of_parameter) {
      Json row = optim_row(session, *state, state->name);
      row["state"] = state_kind(*state, parameter);
      row["label"] = cat("  ", state_kind(*state, parameter));
      rows.add(row);
      row.erase("label");
      entry["states"].push_back(std::move(row));
    }
    list.push_back(std::move(entry));
  };
  for (size_t i = 0; i < all.size(); ++i) {
    unread.read(all[i].label, [&] { add(*all[i].parameter, states[i]); });
  }
  Result result;
  rows.give(result, "parameters", session);
  result.json["parameters"] = list;
  result.table = {};  // the table's rows are not those of the JSON: a parameter has several rows
  unread.give(result);
  return result;
}

}  // namespace am::values
