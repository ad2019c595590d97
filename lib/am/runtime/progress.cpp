#include "am/runtime/progress.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "am/base/error.h"
#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/launch/supervise/wall_time.h"

namespace am::runtime {

namespace {

// Returns whether a collective has completed. Any thread may call this function. Without the device
// guard, a thread that has no current GPU would create a context on GPU 0.
bool completed(c10d::Work& observer, c10::Device device) {
  try {
    const c10::DeviceGuard guard(device);
    return observer.isCompleted();
  } catch (const std::exception&) {
    return false;  // the GPU failed; the thread that waits in wait() reports the error
  }
}

}  // namespace

std::string Collective::name() const { return cat(op, " ", group, " #", sequence); }

std::string Collective::describe() const {
  return cat(name(), " (", ranks_text(communicator->ranks), ")");
}

void set_waiting(RankState& state, const Collective& collective, double seconds) {
  state.waiting_op = collective.op;
  state.waiting_group = collective.group;
  state.waiting_communicator = collective.communicator->name;
  state.waiting_sequence = collective.sequence;
  state.waiting_ranks = collective.communicator->ranks;
  state.waiting_seconds = seconds;
  uint64_t& last = state.issued[state.waiting_communicator];
  last = std::max(last, collective.sequence);
}

void Progress::set_step(int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

std::optional<int64_t> Progress::step() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

void Progress::set_failed(const std::string& message) {
  const std::lock_guard lock(mutex_);
  failed_ = message;
}

void Progress::issued(const Collective& collective) {
  const std::lock_guard lock(mutex_);
  issued_[collective.communicator->name] = collective.sequence;
  last_ = collective;
}

void Progress::wait_begins(const Collective& collective) {
  const std::lock_guard lock(mutex_);
  waiting_ = Waiting{collective, Clock::now()};
}

void Progress::wait_ends() {
  const std::lock_guard lock(mutex_);
  if (waiting_) waited_ += Clock::now() - waiting_->since;
  waiting_.reset();
}

void Progress::add_waited(Clock::duration time) {
  const std::lock_guard lock(mutex_);
  waited_ += time;
}

double Progress::waited_seconds() const {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(waited_).count();
}

void Progress::track(const Collective& collective, c10::intrusive_ptr<c10d::Work> observer,
                     c10::Device device) {
  bool many;
  {
    const std::lock_guard lock(mutex_);
    tracked_.push_back({{collective, Clock::now()}, std::move(observer), device});
    many = tracked_.size() >= forget_at_;
  }
  if (!many) return;
  forget_completed();
  const std::lock_guard lock(mutex_);
  forget_at_ = std::max<size_t>(64, 2 * tracked_.size());
}

// Removes completed collectives from tracked_. Queries the observers without holding the mutex,
// because the driver of a failed GPU may block, and the rank must still be able to report its
// state.
void Progress::forget_completed() {
  std::vector<Tracked> tracked;
  {
    const std::lock_guard lock(mutex_);
    tracked = tracked_;
  }
  std::set<const c10d::Work*> done;
  for (const Tracked& one : tracked) {
    if (completed(*one.observer, one.device)) done.insert(one.observer.get());
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(tracked_, [&](const Tracked& one) { return done.contains(one.observer.get()); });
}

std::optional<Progress::Waiting> Progress::waiting_locked() const {
  std::optional<Waiting> oldest = waiting_;
  for (const Tracked& tracked : tracked_) {
    if (!oldest || tracked.waiting.since < oldest->since) oldest = tracked.waiting;
  }
  return oldest;
}

std::optional<Progress::Waiting> Progress::waiting() {
  forget_completed();
  const std::lock_guard lock(mutex_);
  return waiting_locked();
}

std::string Progress::last_collective() const {
  const std::lock_guard lock(mutex_);
  if (waiting_) return waiting_->collective.name();
  return last_ ? last_->name() : std::string();
}

RankState Progress::state(int64_t rank) {
  forget_completed();
  const std::lock_guard lock(mutex_);
  RankState state;
  state.rank = rank;
  state.step = step_;
  state.beat = ++beat_;
  state.time = launch::wall_time();
  state.issued = issued_;
  state.failed = failed_;
  if (const auto waiting = waiting_locked()) {
    set_waiting(state, waiting->collective, launch::seconds_since(waiting->since));
  }
  return state;
}

}  // namespace am::runtime
