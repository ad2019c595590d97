// Information that a rank can give about itself at any time, even while its training thread hangs.
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

  // Returns the rank's answer, an object with "rank", "state", "phase" and "memory_bytes". The
  // question's key "what" is "ranks", "collectives" or "stack". For "collectives", the answer also
  // has "collectives", at most as many as the question's key "newest" says; for "stack", it has
  // "frames" (and "backward_frames" if a GPU's backward has a thread), with one frame per line.
  Json answer(const Json& question);
  // Sets the probe that takes stacks of the training thread. That thread must set null before it
  // destroys the probe.
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
