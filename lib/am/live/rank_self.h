// What one rank can say about itself at any time, without its training thread.
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

class RankSelf {
 public:
  explicit RankSelf(const runtime::World& world);

  Status status;
  runtime::RecentCollectives collectives;

  // `what`: "ranks", "collectives" or "stack". {"rank", "state", "phase", "memory_bytes", and what
  // was asked for}.
  Json answer(const std::string& what);
  // Of the training thread, which takes it back (null) before it ends it.
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
