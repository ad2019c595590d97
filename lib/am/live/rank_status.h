// State of a rank, readable by other threads even while the rank's training thread hangs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "am/base/json.h"
#include "am/live/stack_probe.h"
#include "am/live/status.h"
#include "am/live/stragglers.h"
#include "am/runtime/recent_collectives.h"
#include "am/runtime/world.h"

namespace am::live {

class RankStatus {
 public:
  explicit RankStatus(const runtime::World& world);

  Status status;
  runtime::RecentCollectives collectives;
  RecentTimes times;
  std::atomic<int64_t> stage{0};  // index of the rank along pp

  // Returns this rank's answer to a question of rank 0 (questions.h): an object with "rank",
  // "state", "phase" and "memory_bytes" (resident host memory). question["what"] is the name of the
  // command: "ranks", "collectives", "stragglers" or "stack". For "stragglers", the object also has
  // "host", "stage" and "times". For "collectives", the object also has "collectives", limited to
  // the newest question["newest"] ones if this key exists. For "stack", the object also has
  // "frames" with one frame per line, and "backward_frames" if the backward of a GPU runs in a
  // thread of its own.
  Json answer(const Json& question);
  // Sets a function that completes every answer: the function may change or add entries of `json`,
  // and must answer questions with a "what" that this class does not know. Null removes the
  // function. After set_complete() has returned, the previous function does not run.
  using Complete = std::function<void(const std::string& what, const Json& question, Json& json)>;
  void set_complete(Complete complete);
  // Sets the probe that captures stack traces of the training thread. The training thread must set
  // null before it destroys the probe.
  void set_probe(StackProbe* probe);
  // Returns an object with "host", "boot_id" and "pid", which identify this process.
  static Json who();

 private:
  int64_t rank_;
  std::shared_ptr<runtime::GroupContext> context_;
  std::mutex complete_mutex_;
  Complete complete_;
  std::mutex probe_mutex_;
  StackProbe* probe_ = nullptr;
};

}  // namespace am::live
