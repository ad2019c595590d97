#include "am/runtime/watchdog.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "am/runtime/inquiry.h"
#include "am/runtime/store.h"

namespace am::runtime {

namespace {

using Clock = Progress::Clock;
using std::chrono::milliseconds;

// Longest time for which the destructor of Watchdog waits for the thread that runs talk().
constexpr milliseconds kFarewell{1500};

}  // namespace

// State of the watchdog's threads. The threads share its ownership with the Watchdog, because
// talk() may outlive the Watchdog if the store does not answer.
struct Watchdog::Shared {
  Shared(const World& made_in, WatchdogOptions given)
      : store_of_rank_0(!made_in.environment().agent_store),
        patience(store_patience(made_in.size())),
        context(made_in.context()),
        options(std::move(given)),
        store(connect_again(made_in.store(), made_in.timeout())) {
    if (options.interval.count() == 0) {
      options.interval = launch::state_interval(made_in.timeout(), made_in.size());
    }
    inquiry.emplace(*store, made_in.rank(), made_in.size(), *context, options.interval,
                    [this] { return stopping.load(); });
  }

  // A request of another thread of the rank to the thread that runs talk(), and the result of this
  // request: why a collective does not end, or only whether the store answers.
  struct Question {
    // The collective that does not end; empty to ask only whether the store answers.
    std::optional<Collective> collective;
    bool timed_out = false;
    int64_t place = 0;  // result of Inquiry::take_place()
    bool store_answered = false;
    bool over = false;
    Stall stall;
  };

  // Body of the thread that communicates with the store.
  void talk() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      const auto asked = std::exchange(question, nullptr);
      lock.unlock();
      if (asked) {
        answer(*asked);
      } else {
        publish_and_listen();
      }
      lock.lock();
      wake.wait_for(lock, options.interval, [&] { return stopping || question; });
    }
    finished = true;
    changed.notify_all();
  }

  void answer(Question& asked) {
    const bool answers = publish_and_ask(asked);
    {
      const std::lock_guard lock(mutex);
      asked.store_answered = answers;
      changed.notify_all();
    }
    Stall stall = answers && asked.collective ? explain(asked) : Stall{};
    const std::lock_guard lock(mutex);
    asked.stall = std::move(stall);
    asked.over = true;
    changed.notify_all();
  }

  // Body of the thread that checks whether a collective has exceeded its timeout. The Watchdog's
  // destructor joins this thread.
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
      wake.wait_for(lock, options.interval, [&] { return stopping.load(); });
    }
  }

  // Makes talk() publish the state once more and find out why `collective`, if set, does not end.
  // Waits for the answer for a limited time. Returns the request; it contains the answer only if
  // the answer arrived in time.
  std::shared_ptr<Question> ask(std::optional<Collective> collective, bool timed_out) {
    const std::lock_guard one(asking);
    std::unique_lock lock(mutex);
    auto asked = std::make_shared<Question>(Question{std::move(collective), timed_out});
    question = asked;
    wake.notify_all();
    changed.wait_for(lock, patience,
                     [&] { return finished || asked->store_answered || asked->over; });
    if (!asked->store_answered) return asked;
    // Inquiry waits up to 2 * patience for the group's verdict; the rest of this limit is for the
    // requests to the store.
    changed.wait_for(lock, 4 * patience, [&] { return finished || asked->over; });
    return asked;
  }

  // Publishes the state. If `asked` has a collective, also registers this rank with
  // Inquiry::take_place. Returns false if the store does not answer.
  bool publish_and_ask(Question& asked) {
    try {
      inquiry->publish();
      if (asked.collective) {
        asked.place = inquiry->take_place(*asked.collective);
      } else {
        store->check({"watch/ping"});
      }
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  // Publishes the state. Reads from the store only while a collective is late, that is, past half
  // of its timeout.
  void publish_and_listen() {
    try {
      inquiry->publish();
      const auto waiting = context->progress.waiting();
      const bool late =
          waiting && Clock::now() - waiting->since >= waiting->collective.communicator->timeout / 2;
      if (late) {
        inquiry->listen(waiting->collective);
      } else {
        inquiry->rest();
      }
    } catch (const std::exception&) {
      // Ignored, because ask() reports a store that does not answer.
    }
  }

  Stall explain(const Question& asked) {
    try {
      return inquiry->explain(*asked.collective, asked.timed_out, asked.place);
    } catch (const std::exception&) {
      return store_is_silent();
    }
  }

  Stall explain(const Collective& collective, bool timed_out) {
    const auto asked = ask(collective, timed_out);
    const std::lock_guard lock(mutex);
    return asked->store_answered ? asked->stall : store_is_silent();
  }

  Stall store_is_silent() const {
    if (!store_of_rank_0) {
      return {{}, "the launcher, which serves the job's store, does not answer"};
    }
    return {{0},
            "rank 0, which serves the job's store, does not answer: stopped, dead or "
            "unreachable"};
  }

  // Returns the error to pass to on_stall if a collective has exceeded its timeout by `grace`;
  // otherwise nothing.
  std::optional<CollectiveError> find_own_stall() {
    const auto waiting = context->progress.waiting();
    if (!waiting) return std::nullopt;
    const Collective& collective = waiting->collective;
    const auto limit = collective.communicator->timeout;
    if (limit.count() == 0 || Clock::now() - waiting->since < limit + options.grace) {
      return std::nullopt;
    }
    return CollectiveError(collective, /*timed_out=*/true,
                           "the collective did not end, not even at its timeout",
                           explain(collective, /*timed_out=*/true));
  }

  const bool store_of_rank_0;
  const milliseconds patience;
  const std::shared_ptr<GroupContext> context;
  WatchdogOptions options;
  const c10::intrusive_ptr<c10d::Store> store;
  std::optional<Inquiry> inquiry;  // used by talk() only

  std::mutex asking;  // locked during ask(), so that one thread at a time waits for an answer
  std::mutex mutex;   // guards the members below
  std::condition_variable wake, changed;
  std::shared_ptr<Question> question;  // the question that talk() must answer next; null: none
  std::atomic<bool> stopping = false;
  bool finished = false;
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
    shared_->changed.wait_for(lock, kFarewell, [&] { return shared_->finished; });
  }
  if (judge_.joinable()) judge_.join();
  shared_->context->explain = nullptr;
}

void Watchdog::publish() {
  if (shared_) shared_->ask({}, false);
}

}  // namespace am::runtime
