#include "am/checkpoint/checkpoint.h"

#include <chrono>
#include <thread>

#include "am/base/fault.h"
#include "am/checkpoint/save_steps.h"

namespace am::checkpoint {

void save_checkpoint(const std::filesystem::path& folder, const SavedState& state,
                     parallel::ShardedParameters& model) {
  SaveSteps steps(folder, state, model);
  steps.collective([&] {
    if (fault::is_planted(fault::Fault::kSlowDisk) &&
        model.mesh().rank() == model.mesh().layout().world_size() - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    steps.file().write(partial_folder(folder));
    steps.report();
  });
  steps.collective([&] {
    if (steps.is_first()) steps.publish();
  });
}

}  // namespace am::checkpoint
