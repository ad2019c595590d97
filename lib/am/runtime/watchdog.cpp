#include "am/runtime/watchdog.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "am/base/text.h"
#include "am/runtime/store.h"

namespace am::runtime {

namespace {

using Clock = Progress::Clock;
using std::chrono::milliseconds;

// A store whose server is stopped keeps its clients waiting for ever; what waits for the watchdog's
// thread waits no longer than this.
constexpr milliseconds kStorePatience{1500};

milliseconds interval_for(milliseconds timeout) {
  return std::clamp(timeout / 20, milliseconds(100), milliseconds(2000));
}

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

// The threads' work. The one that talks may outlive the Watchdog (blocked in a store that does not
// answer), so it owns all it touches.
struct Watchdog::Shared {
  Shared(const World& made_in, WatchdogOptions given)
      : rank(made_in.rank()),
        store(made_in.store()->clone()),
        store_of_rank_0(!made_in.environment().agent_store),
        context(made_in.context()),
        options(std::move(given)) {
    if (options.interval.count() == 0) options.interval = interval_for(made_in.timeout());
  }

  struct Heard {
    RankState state;
    Clock::time_point changed;
  };

  // The thread that talks to the store.
  void talk() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      asked = false;
      ++rounds_begun;
      round_began = Clock::now();
      lock.unlock();
      const bool answered = publish() && listen();
      lock.lock();
      store_answers = answered;
      rounds_done = rounds_begun;
      round_done.notify_all();
      wake.wait_for(lock, options.interval, [&] { return stopping || asked; });
    }
    finished = true;
    round_done.notify_all();
  }

  // The thread that watches the time. It lives as long as the Watchdog, whose destructor waits for
  // it.
  void judge() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      lock.unlock();
      const auto stall = find_own_stall();
      lock.lock();
      if (stall && !stopping) {
        lock.unlock();
        options.on_stall(*stall);
        return;
      }
      wake.wait_for(lock, options.interval, [&] { return stopping; });
    }
  }

  // Has the thread publish and listen once more; whether the store answered, in good time.
  bool ask() {
    std::unique_lock lock(mutex);
    asked = true;
    wake.notify_all();
    const uint64_t wanted = rounds_begun + 1;  // the round under way may have looked already
    return round_done.wait_for(lock, kStorePatience, [&] {
      return finished || rounds_done >= wanted;
    }) && store_answers;
  }

  bool publish() {
    try {
      store_set(*store, launch::state_key(rank),
                dump_json(context->progress.state(rank).to_json(), /*indent=*/-1));
      return true;
    } catch (const std::exception&) {
      return false;  // told to whoever asks, by store_answers
    }
  }

  // While a collective is late: the states of the ranks it waits for, and of those they wait for.
  bool listen() {
    const auto waiting = context->progress.waiting();
    const auto limit = waiting ? waiting->collective.communicator->timeout / 2 : milliseconds(0);
    const bool late = waiting && (explaining || Clock::now() - waiting->since >= limit);
    if (!late) {
      const std::lock_guard lock(mutex);
      heard.clear();
      return true;
    }
    try {
      for (const int64_t peer :
           ranks_to_ask(waiting->collective, rank, views(waiting->collective))) {
        const auto text = store_get(*store, launch::state_key(peer));
        if (text) hear(RankState::from_json(Json::parse(*text)));
      }
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void hear(RankState state) {
    const std::lock_guard lock(mutex);
    const auto known = heard.find(state.rank);
    if (known == heard.end()) {
      heard.emplace(state.rank, Heard{state, Clock::now()});
    } else if (known->second.state.beat != state.beat) {
      known->second = {std::move(state), Clock::now()};
    }
  }

  // What the peers said, and this rank: it waits in `waiting`.
  std::map<int64_t, PeerView> views(const Collective& waiting) {
    RankState own = context->progress.state(rank);
    set_waiting(own, waiting, own.waiting_seconds);
    std::map<int64_t, PeerView> views = {{rank, {std::move(own), 0.0}}};
    const std::lock_guard lock(mutex);
    for (const auto& [peer, entry] : heard) {
      views[peer] = {entry.state, seconds(Clock::now() - entry.changed)};
    }
    return views;
  }

  Stall explain(const Collective& collective, bool timed_out) {
    explaining = true;
    if (!ask()) return store_is_silent();
    // A connection that broke tells at once, before anybody's silence can be noticed.
    return find_stall(collective, rank, views(collective), timed_out ? silent_limit() : 0.0);
  }

  Stall store_is_silent() const {
    if (!store_of_rank_0) {
      return {{}, "the launcher, which serves the job's store, does not answer"};
    }
    return {{0},
            "rank 0, which serves the job's store, does not answer: stopped, dead or "
            "unreachable"};
  }

  // What on_stall is to be told, when nothing has ended a collective in good time.
  std::optional<CollectiveError> find_own_stall() {
    const auto waiting = context->progress.waiting();
    if (!waiting) return std::nullopt;
    const Collective& collective = waiting->collective;
    const auto limit = collective.communicator->timeout;
    if (limit.count() == 0 || Clock::now() - waiting->since < limit + options.grace) {
      return std::nullopt;
    }
    return CollectiveError(collective, /*timed_out=*/true, "it did not end, and nothing ended it",
                           store_has_answered()
                               ? find_stall(collective, rank, views(collective), silent_limit())
                               : store_is_silent());
  }

  bool store_has_answered() {
    const std::lock_guard lock(mutex);
    const bool in_round = rounds_done < rounds_begun;
    return in_round ? Clock::now() - round_began < kStorePatience : store_answers;
  }

  // A rank that has not published for so long does not run.
  double silent_limit() const { return std::max(3.0 * seconds(options.interval), 0.5); }

  const int64_t rank;
  const c10::intrusive_ptr<c10d::Store> store;
  const bool store_of_rank_0;
  const std::shared_ptr<GroupContext> context;
  WatchdogOptions options;

  std::mutex mutex;
  std::condition_variable wake, round_done;
  std::map<int64_t, Heard> heard;
  std::atomic<bool> explaining = false;
  bool asked = false;
  bool stopping = false;
  bool finished = false;
  bool store_answers = true;
  Clock::time_point round_began = {};
  uint64_t rounds_begun = 0;
  uint64_t rounds_done = 0;
};

Watchdog::Watchdog(const World& world, WatchdogOptions options) {
  if (world.size() == 1) return;
  shared_ = std::make_shared<Shared>(world, std::move(options));
  std::thread([shared = shared_] { shared->talk(); }).detach();
  if (shared_->options.on_stall) judge_ = std::thread([shared = shared_] { shared->judge(); });
  world.context()->explain = [weak = std::weak_ptr<Shared>(shared_)](const Collective& collective,
                                                                     bool timed_out) {
    const auto shared = weak.lock();
    return shared ? shared->explain(collective, timed_out) : Stall{};
  };
}

Watchdog::~Watchdog() {
  if (!shared_) return;
  publish();
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->wake.notify_all();
    shared_->round_done.wait_for(lock, kStorePatience, [&] { return shared_->finished; });
  }
  if (judge_.joinable()) judge_.join();
  shared_->context->explain = nullptr;
}

void Watchdog::publish() {
  if (shared_) shared_->ask();
}

}  // namespace am::runtime
