// State of a rank, readable by other threads even while the rank's training thread hangs.
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

  // Returns an object with "rank", "state", "phase" and "memory_bytes". The value of
  // question["what"] is "ranks", "collectives" or "stack". For "collectives", the object also has
  // "collectives", limited to the newest question["newest"] ones if that key exists. For "stack",
  // it also has "frames" with one frame per line, and "backward_frames" if the backward of a GPU
  // runs in a thread of its own.
  Json answer(const Json& question);
  // Sets the probe that captures stack traces of the training thread. The training thread must set
  // null before it destroys the probe.
  void set_probe(StackProbe* probe);
  // Returns an object with "host", "boot_id" and "pid", which identify this process.
  static Json who();

 private:
  int64_t rank_;
  std::shared_ptr<runtime::GroupContext> context_;
  std::mutex probe_mutex_;
  StackProbe* probe_ = nullptr;
};

}  // namespace am::live
