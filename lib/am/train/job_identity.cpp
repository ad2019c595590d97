#include "am/train/job_identity.h"

#include <set>

#include "am/base/host.h"

namespace am::train {

run_folder::JobIdentity agree_on_job(const runtime::World& world, const std::string& own) {
  run_folder::JobIdentity job;
  job.id = world.group().broadcast_text(own.empty() ? unique_id() : own);
  std::set<std::string> launchers;
  for (const std::string& each : world.group().all_gather_text(own)) {
    if (!each.empty()) launchers.insert(each);
  }
  job.launchers.assign(launchers.begin(), launchers.end());
  return job;
}

}  // namespace am::train
