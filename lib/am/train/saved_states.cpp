#include "am/train/saved_states.h"

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
      const parallel::OwnedParameter& owned = groups[g]->owned()[i];
      for (const auto& each : optim::parameter_state(optimizer, model, g, i)) {
        states.push_back(
            {cat(run_folder::kOptimizerPrefix, owned.name, ".", each.name), &owned, each.value});
      }
    }
  }
  return states;
}

}  // namespace am::train
