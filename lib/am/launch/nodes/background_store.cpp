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

constexpr auto kBeatEvery = std::chrono::milliseconds(500);
constexpr auto kFarewell = std::chrono::seconds(2);

}  // namespace

struct BackgroundStore::Shared {
  struct Request {
    std::string key;
    std::optional<std::string> value;  // to be set; nothing: to be got
  };

  std::shared_ptr<KeyValueStore> store;
  std::mutex mutex;  // of all that follows
  std::condition_variable changed;
  std::deque<Request> requests;
  std::set<std::string> asked;  // the keys to be got among the requests: each stands there once
  std::map<std::string, std::string> answers;
  std::string lost;      // why the store is lost; empty: it is not
  int64_t calls = 0;     // begun
  bool calling = false;  // the last of them has not returned
  bool ending = false;
  bool ended = false;

  void serve(const std::string& heartbeat_key);
  void call(Request request, std::unique_lock<std::mutex>& lock);
};

// The thread's life: until the store is lost, or all is written and nobody is there any more.
void BackgroundStore::Shared::serve(const std::string& heartbeat_key) {
  int64_t heartbeat = 0;
  Clock::time_point next_beat = Clock::now();
  std::unique_lock lock(mutex);
  while (lost.empty()) {
    changed.wait_until(lock, next_beat, [this] { return ending || !requests.empty(); });
    if (Clock::now() >= next_beat) {
      requests.push_back({heartbeat_key, std::to_string(++heartbeat)});
      next_beat = Clock::now() + kBeatEvery;
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
  lock.unlock();
  std::optional<std::string> answer;
  std::string fault;
  try {
    if (request.value) {
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
  if (answer) answers[request.key] = *std::move(answer);
  if (lost.empty()) lost = std::move(fault);
}

BackgroundStore::BackgroundStore(std::shared_ptr<KeyValueStore> store, std::string heartbeat_key,
                                 Clock::duration patience)
    : shared_(std::make_shared<Shared>()), patience_(patience) {
  shared_->store = std::move(store);
  thread_ = std::thread([shared = shared_, heartbeat_key = std::move(heartbeat_key)] {
    shared->serve(heartbeat_key);
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
  std::optional<std::string> answer;
  if (const auto found = shared_->answers.find(key); found != shared_->answers.end()) {
    answer = std::move(found->second);
    shared_->answers.erase(found);
  }
  if (shared_->asked.insert(key).second) {
    shared_->requests.push_back({key, std::nullopt});
    shared_->changed.notify_all();
  }
  return answer;
}

// With the lock held.
void BackgroundStore::check() {
  // Who was stopped or suspended himself must not blame the other end: a look counts for at most
  // one second.
  constexpr Clock::duration kLongestStep = std::chrono::seconds(1);
  const auto now = Clock::now();
  const bool same_call = shared_->calling && shared_->calls == watched_call_;
  waited_ = same_call ? waited_ + std::min(now - watched_at_, kLongestStep) : Clock::duration{};
  watched_call_ = shared_->calls;
  watched_at_ = now;
  if (shared_->lost.empty() && waited_ > patience_) {
    shared_->lost =
        cat("no answer for ", std::chrono::duration_cast<std::chrono::seconds>(patience_).count(),
            " s: stopped, dead or unreachable");
  }
  if (!shared_->lost.empty()) throw Error(ErrorKind::kPeer, shared_->lost);
}

}  // namespace am::launch
