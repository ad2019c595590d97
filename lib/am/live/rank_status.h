// Information that a rank can give about itself at any time, without its training thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "am/base/json.h"
#include "am/live/stack_probe.h"
#include "am/live/status.h"
#include "am/runtime/recent_collectives.h"
#include "am/runtime/world.h"

namespace am::live {

class RankStatus {
 public:
  explicit RankStatus(const runtime::World& world);

  Status status;
  runtime::RecentCollectives collectives;

  // The question is {"what": "ranks", "collectives" or "stack", "newest"?: number of collectives}.
  // Returns {"rank", "state", "phase", "memory_bytes", and "collectives" or "frames"}; each frame
  // is a line.
  Json answer(const Json& question);
  // Sets the probe of the training thread. That thread must set null before it destroys the probe.
  void set_probe(StackProbe* probe);
  // {"host", "boot_id", "pid"}
  static Json who();

 private:
  int64_t rank_;
  std::shared_ptr<runtime::GroupContext> context_;
  std::mutex probe_mutex_;
  StackProbe* probe_ = nullptr;
};

}  // namespace am::live
