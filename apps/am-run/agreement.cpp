#include "agreement.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"

namespace am_run {

using namespace am;

namespace {

// The first line of a text that another has otherwise: "max_steps = 3, there max_steps = 2".
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

void share_run_folder(const launch::RunFolder& run, const runtime::World& world) {
  std::string token;
  if (world.rank() == 0) {
    launch::RunFolder::create(run.root());
    token = cat(".shared-", ::getpid());
    write_file_atomically(run.root() / token, "seen by every rank of the job?\n");
  }
  token = world.group().broadcast_text(token);
  // A network file system may show a new file to other machines late.
  constexpr int kTries = 50;
  bool seen = std::filesystem::exists(run.root() / token);
  for (int i = 0; i < kTries && !seen; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    seen = std::filesystem::exists(run.root() / token);
  }
  const auto blind = world.group().all_gather_text(seen ? "" : run.root().string());
  if (world.rank() == 0) std::filesystem::remove(run.root() / token);
  for (size_t rank = 0; rank < blind.size(); ++rank) {
    if (blind[rank].empty()) continue;
    throw Error(ErrorKind::kPlan,
                cat("the run folder is not shared: what rank 0 wrote there, rank ", rank,
                    " does not find in ", blind[rank]),
                "give all ranks the same --run-dir, on a file system that all machines share");
  }
}

}  // namespace am_run
