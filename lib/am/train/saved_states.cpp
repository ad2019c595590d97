#include "am/train/saved_states.h"

#include <set>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/optim/from_plan.h"
#include "am/run_folder/shard_index.h"

namespace am::train {

std::vector<checkpoint::StateTensor> saved_states(const optim::Optimizer& optimizer,
                                                  const parallel::ParallelModel& model) {
  std::vector<checkpoint::StateTensor> states;
  const auto& groups = model.groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < groups[g]->owned().size(); ++i) {
      const parallel::LocalParameter& owned = groups[g]->owned()[i];
      for (const auto& each : optim::parameter_state(optimizer, model, g, i)) {
        states.push_back({run_folder::state_name(owned.name, each.name), &owned, each.value});
      }
    }
  }
  return states;
}

void require_states(const stored::TensorSource& source,
                    const std::vector<checkpoint::StateTensor>& states) {
  std::set<std::string> stored;
  for (const stored::StoredTensor& each : source.optimizer_tensors()) stored.insert(each.name);
  std::set<std::string> missing;
  for (const auto& state : states) {
    if (stored.count(state.key) == 0) missing.insert(state.parameter->name);
  }
  if (missing.empty()) return;
  const std::string others = missing.size() == 1 ? "" : cat(" and ", missing.size() - 1, " more");
  throw Error(
      ErrorKind::kFormat,
      cat(source.path().string(), ": the checkpoint lacks optimizer states of ", *missing.begin(),
          others,
          ": its run trained other parameters (model.freeze_params), had another optimizer, or had "
          "no ema_decay"),
      cat("keep model.freeze_params, the optimizer and ema_decay as in that run; or begin a new "
          "run from these weights, with model.weights = \"",
          source.path().string(), "\""));
}

}  // namespace am::train
