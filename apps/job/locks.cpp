#include "job/locks.h"

#include <iostream>

#include "am/term/printable.h"

namespace am_run {

using namespace am;

std::vector<run_folder::RunLock> take_locks(const run_folder::RunFolder& run,
                                            const std::filesystem::path& checkpoints,
                                            const std::string& job) {
  std::filesystem::create_directories(checkpoints);
  std::vector<std::filesystem::path> folders = {run.root()};
  const bool inside = checkpoints == run.checkpoints() ||
                      std::filesystem::equivalent(checkpoints, run.checkpoints()) ||
                      std::filesystem::equivalent(checkpoints, run.root());
  if (!inside) folders.push_back(checkpoints);
  std::vector<run_folder::RunLock> locks;
  for (const auto& folder : folders) {
    run_folder::LockOptions options;
    options.job = job;
    locks.push_back(run_folder::RunLock::take(folder, options));
    const std::string& left_by = locks.back().left_by();
    if (left_by.empty()) continue;
    std::cerr << "note        the lock of " << term::echo(folder.string()) << " was left by "
              << term::echo(left_by) << ", which no longer runs\n";
  }
  return locks;
}

}  // namespace am_run
