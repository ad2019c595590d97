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
#include "am/launch/wall_time.h"

namespace am::runtime {

namespace {

double seconds_since(Progress::Clock::time_point start) {
  return std::chrono::duration<double>(Progress::Clock::now() - start).count();
}

// Asked from any thread: one that has not chosen a GPU would make a context on GPU 0.
bool completed(c10d::Work& observer, c10::Device device) {
  try {
    const c10::DeviceGuard guard(device);
    return observer.isCompleted();
  } catch (const std::exception&) {
    return false;  // the GPU is in trouble; whoever waits for it says how
  }
}

}  // namespace

std::string Collective::name() const { return cat(op, " ", group, " #", sequence); }

std::string Collective::describe() const {
  return cat(name(), " (", ranks_text(communicator->ranks), ")");
}

std::string RankState::whereabouts() const {
  std::string text;
  if (step) text = cat("at step ", *step, ", ");
  if (waiting_op.empty()) return text + "in no collective";
  return cat(text, "in ", waiting_op, " ", waiting_group, " #", waiting_sequence, " for ",
             format_duration(waiting_seconds));
}

void RankState::set_waiting(const Collective& collective, double seconds) {
  waiting_op = collective.op;
  waiting_group = collective.group;
  waiting_communicator = collective.communicator->name;
  waiting_sequence = collective.sequence;
  waiting_ranks = collective.communicator->ranks;
  waiting_seconds = seconds;
  uint64_t& last = issued[waiting_communicator];
  last = std::max(last, collective.sequence);
}

Json RankState::to_json() const {
  Json json = {{"rank", rank}, {"beat", beat}, {"time", time}, {"issued", Json::object()}};
  for (const auto& [communicator, count] : issued) json["issued"][communicator] = count;
  if (step) json["step"] = *step;
  if (!failed.empty()) json["failed"] = failed;
  if (!waiting_op.empty()) {
    json["waiting"] = {{"op", waiting_op},
                       {"group", waiting_group},
                       {"communicator", waiting_communicator},
                       {"sequence", waiting_sequence},
                       {"ranks", waiting_ranks},
                       {"seconds", waiting_seconds}};
  }
  return json;
}

RankState RankState::from_json(const Json& json) {
  RankState state;
  try {
    state.rank = json.at("rank").get<int64_t>();
    state.beat = json.at("beat").get<uint64_t>();
    state.time = json.at("time").get<double>();
    state.issued = json.at("issued").get<std::map<std::string, uint64_t>>();
    if (json.contains("step")) state.step = json.at("step").get<int64_t>();
    state.failed = json.value("failed", "");
    if (json.contains("waiting")) {
      const Json& waiting = json.at("waiting");
      state.waiting_op = waiting.at("op").get<std::string>();
      state.waiting_group = waiting.at("group").get<std::string>();
      state.waiting_communicator = waiting.at("communicator").get<std::string>();
      state.waiting_sequence = waiting.at("sequence").get<uint64_t>();
      state.waiting_ranks = waiting.at("ranks").get<std::vector<int64_t>>();
      state.waiting_seconds = waiting.at("seconds").get<double>();
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kFormat, cat("a rank's published state: ", error.what()));
  }
  return state;
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
  waiting_.reset();
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

// The observers are asked outside the lock: a GPU's driver in trouble may not answer, and the rank
// must be able to say so.
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
    state.set_waiting(waiting->collective, seconds_since(waiting->since));
  }
  return state;
}

}  // namespace am::runtime
