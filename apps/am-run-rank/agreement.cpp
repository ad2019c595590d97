#include "agreement.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/host.h"
#include "am/base/text.h"
#include "am/checkpoint/collective_step.h"
#include "job/locks.h"

namespace am_run {

using namespace am;

namespace {

// Returns the first line in which this rank's plan (`here`) differs from rank 0's (`there`), for
// example "max_steps = 3, rank 0: max_steps = 2".
std::string first_difference(const std::string& there, const std::string& here) {
  const auto theirs = split(there, '\n');
  const auto own = split(here, '\n');
  for (size_t i = 0; i < std::max(theirs.size(), own.size()); ++i) {
    const std::string a = i < theirs.size() ? theirs[i] : "nothing";
    const std::string b = i < own.size() ? own[i] : "nothing";
    if (a != b) return cat(trim(b), ", rank 0: ", trim(a));
  }
  return "another text";
}

// Rank 0 writes a file into the folder, and every rank waits up to 5 seconds for the file to become
// visible. If a rank does not see the file, throws Error(kPlan) on every rank. `name` is the
// folder's name in the error, and `help` the beginning of the error's hint.
void share_folder(const std::filesystem::path& folder, const std::string& name,
                  const std::string& help, const runtime::World& world) {
  std::string token;
  checkpoint::collective_step(
      world.group(), [] {},
      [&] {
        if (world.rank() != 0) return;
        token = cat(".shared-", unique_id());
        write_own_file(folder / token, "seen by every rank of the job?\n");
      });
  token = world.group().broadcast_text(token);
  // A network file system may show a new file to other machines with a delay.
  constexpr int kTries = 50;
  bool seen = std::filesystem::exists(folder / token);
  for (int i = 0; i < kTries && !seen; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    seen = std::filesystem::exists(folder / token);
  }
  const auto blind = world.group().all_gather_text(seen ? "" : folder.string());
  if (world.rank() == 0) std::filesystem::remove(folder / token);
  for (size_t rank = 0; rank < blind.size(); ++rank) {
    if (blind[rank].empty()) continue;
    throw Error(ErrorKind::kPlan,
                cat(name, " is not shared: a file that rank 0 wrote there is not visible to rank ",
                    rank, " in ", blind[rank]),
                cat(help, ", on a file system that all machines share"));
  }
}

}  // namespace

void compare_plans(const config::Plan& plan, const runtime::World& world) {
  const std::string own = config::to_toml(plan);
  const std::string first = world.group().broadcast_text(own);
  std::string verdict;
  if (own != first) verdict = first_difference(first, own);
  const auto verdicts = world.group().all_gather_text(verdict);
  for (size_t rank = 0; rank < verdicts.size(); ++rank) {
    if (verdicts[rank].empty()) continue;
    throw Error(ErrorKind::kPlan,
                cat("rank ", rank, " has another plan than rank 0: ", verdicts[rank]),
                "start every rank with the same plan file, --set and --steps");
  }
}

void share_folders(const run_folder::RunFolder& run, const std::filesystem::path& checkpoints,
                   bool made, const runtime::World& world) {
  checkpoint::collective_step(
      world.group(), [] {},
      [&] {
        if (world.rank() != 0 || made) return;
        run_folder::RunFolder::create(run.root());
        std::filesystem::create_directories(checkpoints);
      });
  share_folder(run.root(), "the run folder", "give all ranks the same --run-dir", world);
  if (checkpoints == run.checkpoints()) return;
  share_folder(checkpoints, "the checkpoint folder", "give all ranks the same checkpoint.dir",
               world);
}

std::vector<run_folder::RunLock> lock_folders(const run_folder::RunFolder& run,
                                              const std::filesystem::path& checkpoints,
                                              const run_folder::JobIdentity& job,
                                              const runtime::World& world) {
  std::vector<run_folder::RunLock> locks;
  checkpoint::collective_step(
      world.group(), [] {},
      [&] {
        if (world.rank() != 0) return;
        if (job.launchers.empty()) {
          locks = take_locks(run, checkpoints, job.id);
        } else if (!run_folder::RunLock::is_held_for(run.root(), job.id)) {
          throw Error(ErrorKind::kIo,
                      cat(run.root().string(),
                          ": the run folder was removed, moved or replaced after the job was "
                          "started: its lock is not this job's"),
                      "start the job again, and do not move or remove its folder while it runs");
        }
      });
  return locks;
}

}  // namespace am_run
