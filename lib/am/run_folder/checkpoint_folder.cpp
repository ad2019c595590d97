#include "am/run_folder/checkpoint_folder.h"

namespace am::run_folder {

std::filesystem::path checkpoint_folder(const config::Plan& plan, const RunFolder& run) {
  return plan.checkpoint.dir.empty() ? run.checkpoints() : plan.resolve(plan.checkpoint.dir);
}

}  // namespace am::run_folder
