#include "am/checkpoint/checkpoint.h"

#include "am/checkpoint/save_steps.h"

namespace am::checkpoint {

void save_checkpoint(const std::filesystem::path& folder, const SavedState& state,
                     parallel::ShardedParameters& model) {
  SaveSteps steps(folder, state, model);
  steps.collective([&] {
    steps.file().write(partial_folder(folder));
    steps.report();
  });
  steps.collective([&] {
    if (steps.is_first()) steps.publish();
  });
}

}  // namespace am::checkpoint
