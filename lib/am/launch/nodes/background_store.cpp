#include "am/launch/nodes/background_store.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::launch {
namespace {

// Time in which the destructor lets the thread complete pending requests.
constexpr auto kFarewell = std::chrono::seconds(2);

}  // namespace

struct BackgroundStore::Shared {
  struct Request {
    std::string key;
    std::optional<std::string> value;  // value to set; nothing if the request is a get
  };

  std::shared_ptr<KeyValueStore> store;
  Clock::duration ask_again = {};  // minimum time between two requests of a key that has no value
  std::mutex mutex;                // guards the following members
  std::condition_variable changed;
  std::deque<Request> requests;
  // Keys whose values are being requested. A key in this set is not queued again.
  std::set<std::string> asked;
  // Time of the last request for each key whose value has not arrived yet.
  std::map<std::string, Clock::time_point> asked_at;
  // Values, by key, that have arrived and that get() has not returned yet.
  std::map<std::string, std::string> answers;
  std::string lost;      // why the store is lost; empty: it is not lost
  int64_t calls = 0;     // number of calls of `store` that have begun
  bool calling = false;  // whether a call of `store` is in progress
  bool ending = false;   // whether the BackgroundStore is being destroyed
  bool ended = false;    // whether the thread has left its loop

  void serve(const std::string& heartbeat_key, Clock::duration beat_interval);
  void call(Request request, std::unique_lock<std::mutex>& lock);
};

// Runs the thread's loop. The loop ends if the store is lost, or if the BackgroundStore is being
// destroyed and no request is pending.
void BackgroundStore::Shared::serve(const std::string& heartbeat_key,
                                    Clock::duration beat_interval) {
  int64_t heartbeat = 0;
  Clock::time_point next_beat = Clock::now();
  std::unique_lock lock(mutex);
  while (lost.empty()) {
    // A heartbeat and the next request travel in one message if they follow each other at once. If
    // requests are pending, a heartbeat is therefore sent up to half an interval early. Otherwise
    // it waits for a request up to a quarter of an interval longer.
    const auto latest = next_beat + beat_interval / 4;
    changed.wait_until(lock, latest, [this] { return ending || !requests.empty(); });
    const auto due = requests.empty() ? latest : next_beat - beat_interval / 2;
    if (Clock::now() >= due) {
      next_beat = Clock::now() + beat_interval;
      call({heartbeat_key, std::to_string(++heartbeat)}, lock);
      continue;
    }
    if (requests.empty() && ending) break;
    if (requests.empty()) continue;
    Request next = std::move(requests.front());
    requests.pop_front();
    call(std::move(next), lock);
  }
  ended = true;
  changed.notify_all();
}

void BackgroundStore::Shared::call(Request request, std::unique_lock<std::mutex>& lock) {
  ++calls;
  calling = true;
  const bool more = !requests.empty();
  lock.unlock();
  std::optional<std::string> answer;
  std::string fault;
  try {
    if (request.value && more) {
      store->set_with_next(request.key, *request.value);
    } else if (request.value) {
      store->set(request.key, *request.value);
    } else {
      answer = store->get(request.key);
    }
  } catch (const std::exception& error) {
    fault = error.what();
    if (fault.empty()) fault = "the launchers' store is gone";
  }
  lock.lock();
  calling = false;
  if (!request.value) asked.erase(request.key);
  if (answer) {
    answers[request.key] = *std::move(answer);
    asked_at.erase(request.key);
  }
  if (lost.empty()) lost = std::move(fault);
}

BackgroundStore::BackgroundStore(std::shared_ptr<KeyValueStore> store, std::string heartbeat_key,
                                 Clock::duration patience, Clock::duration beat_interval)
    : shared_(std::make_shared<Shared>()), patience_(patience) {
  shared_->store = std::move(store);
  shared_->ask_again = beat_interval / 5;
  thread_ = std::thread([shared = shared_, key = std::move(heartbeat_key), beat_interval] {
    shared->serve(key, beat_interval);
  });
}

BackgroundStore::~BackgroundStore() {
  bool ended = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->ending = true;
    shared_->changed.notify_all();
    const auto limit = shared_->lost.empty() ? kFarewell : std::chrono::seconds(0);
    ended = shared_->changed.wait_for(lock, limit, [this] { return shared_->ended; });
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void BackgroundStore::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(shared_->mutex);
  check();
  shared_->requests.push_back({key, value});
  shared_->changed.notify_all();
}

std::optional<std::string> BackgroundStore::get(const std::string& key) {
  const std::lock_guard lock(shared_->mutex);
  check();
  if (const auto found = shared_->answers.find(key); found != shared_->answers.end()) {
    std::string answer = std::move(found->second);
    shared_->answers.erase(found);
    return answer;
  }
  Clock::time_point& asked_at = shared_->asked_at[key];
  const bool again = Clock::now() - asked_at >= shared_->ask_again;
  if (again && shared_->asked.insert(key).second) {
    asked_at = Clock::now();
    shared_->requests.push_back({key, std::nullopt});
    shared_->changed.notify_all();
  }
  return std::nullopt;
}

// Throws Error(kPeer) if the store is lost or the call in progress takes longer than patience_. The
// caller must hold the mutex.
void BackgroundStore::check() {
  // While this process is suspended, it cannot see the server's answer. A check therefore adds at
  // most 1 s to waited_, however long ago the last check was.
  constexpr Clock::duration kLongestStep = std::chrono::seconds(1);
  const auto now = Clock::now();
  const bool same_call = shared_->calling && shared_->calls == watched_call_;
  waited_ = same_call ? waited_ + std::min(now - watched_at_, kLongestStep) : Clock::duration{};
  watched_call_ = shared_->calls;
  watched_at_ = now;
  if (shared_->lost.empty() && waited_ > patience_) {
    shared_->lost =
        cat("no answer for ", std::chrono::duration_cast<std::chrono::seconds>(patience_).count(),
            " s: node 0's launcher is stopped, dead or unreachable");
  }
  if (!shared_->lost.empty()) throw Error(ErrorKind::kPeer, shared_->lost);
}

}  // namespace am::launch
