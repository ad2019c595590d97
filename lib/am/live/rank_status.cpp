#include "am/live/rank_status.h"

#include <unistd.h>

#include <exception>
#include <utility>

#include "am/base/host.h"
#include "am/base/text.h"
#include "am/control/frame.h"
#include "am/tensor/process_memory.h"

namespace am::live {

namespace {

// Longest time to wait for a stack trace. A thread that is running responds within microseconds.
constexpr auto kStackPatience = std::chrono::milliseconds(500);

}  // namespace

RankStatus::RankStatus(const runtime::World& world)
    : status(world.device()), rank_(world.rank()), context_(world.context()) {}

Json RankStatus::answer(const Json& question) {
  const std::string what = control::text_in(question, "what");
  Json json = {{"rank", rank_},
               {"state", context_->progress.state(rank_).to_json()},
               {"phase", status.phase()},
               {"memory_bytes", tensor::resident_bytes()}};
  if (what == "collectives") {
    json["collectives"] = collectives.to_json(context_->progress.waiting(),
                                              question.value("newest", collectives.kKept));
  }
  if (what == "stragglers") {
    json["host"] = host_name();
    json["stage"] = stage.load();
    json["times"] = times.to_json();
  }
  if (what == "stack") {
    const std::lock_guard lock(probe_mutex_);
    // The frames are joined to one string, because rank 0 parses a string ten times as fast as a
    // list.
    json["frames"] = probe_ != nullptr ? join(probe_->take(kStackPatience), "\n") : std::string();
    const std::string backward =
        probe_ != nullptr ? join(probe_->take_of_device(kStackPatience), "\n") : std::string();
    if (!backward.empty()) json["backward_frames"] = backward;
  }
  const std::lock_guard lock(complete_mutex_);
  if (!complete_) return json;
  try {
    complete_(what, question, json);
  } catch (const std::exception&) {
    // `complete_` has read data of the program in an unexpected form. The answer keeps the entries
    // above.
  }
  return json;
}

void RankStatus::set_complete(Complete complete) {
  const std::lock_guard lock(complete_mutex_);
  complete_ = std::move(complete);
}

void RankStatus::set_probe(StackProbe* probe) {
  const std::lock_guard lock(probe_mutex_);
  probe_ = probe;
}

Json RankStatus::who() {
  return {{"host", host_name()}, {"boot_id", boot_id()}, {"pid", ::getpid()}};
}

}  // namespace am::live
