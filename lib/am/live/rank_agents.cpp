#include "am/live/rank_agents.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "am/base/signals_blocked.h"
#include "am/runtime/store.h"

namespace am::live {

namespace {

constexpr size_t kMostQuestions = 16;
constexpr auto kHelpersFarewell = std::chrono::milliseconds(1500);

}  // namespace

// State that the thread and the RankAgents object share. A thread that is blocked in an
// unresponsive store may outlive the object, so both hold the state by a shared_ptr.
struct RankAgents::Shared {
  Shared(const runtime::World& world, std::shared_ptr<RankStatus> of, std::function<void()> at_end)
      : rank(world.rank()), size(world.size()), self(std::move(of)), ended(std::move(at_end)) {
    if (size > 1) store = runtime::connect_again(world.store(), world.timeout());
  }

  struct Question {
    Json what;
    std::optional<std::vector<int64_t>> ranks;  // in ascending order; nullopt: all
    std::function<void(const Answers&)> use;
  };

  const int64_t rank;
  const int64_t size;
  const std::shared_ptr<RankStatus> self;
  const std::function<void()> ended;
  c10::intrusive_ptr<c10d::Store> store;  // used by this rank's thread only; null if size is 1

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Question> questions;
  bool ending = false;
  bool finished = false;
  std::mutex using_mutex;  // locked while a `use` function runs
  bool closed = false;

  // Runs in the thread of ranks other than 0.
  void listen() {
    try {
      answer_questions(*store, rank, RankStatus::who(),
                       [this](const Json& question) { return self->answer(question); });
    } catch (const std::exception&) {
      // The connection to the store is lost, normally because the job ends.
    }
    finish();
  }

  // Runs in the thread of rank 0.
  void serve() {
    std::optional<Questions> others;
    if (store) others.emplace(*store, size);
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || !questions.empty(); });
      if (ending) break;  // drops further questions: their clients are gone
      const Question question = std::move(questions.front());
      questions.pop_front();
      lock.unlock();
      Answers answers;
      std::optional<Json> own;
      const auto& ranks = question.ranks;
      if (!ranks || ranks->front() == 0) own = self->answer(question.what);
      if (others && (!ranks || ranks->back() > 0)) answers = others->ask(question.what, ranks);
      if (own) answers.said[0] = *std::move(own);
      {
        const std::lock_guard use(using_mutex);
        try {
          if (!closed) question.use(answers);
        } catch (const std::exception&) {
          // An answer of another rank has an unexpected form; the client gets no reply.
        }
      }
      lock.lock();
    }
    lock.unlock();
    try {
      if (others) others->end();
    } catch (const std::exception&) {
      // The connection to the store is lost. The threads of the other ranks end for the same
      // reason.
    }
    finish();
  }

  void finish() {
    if (ended) ended();
    const std::lock_guard lock(mutex);
    finished = true;
    changed.notify_all();
  }
};

RankAgents::RankAgents(const runtime::World& world, std::shared_ptr<RankStatus> self,
                       std::function<void()> ended)
    : shared_(std::make_shared<Shared>(world, std::move(self), std::move(ended))) {
  const SignalsBlocked blocked;
  std::thread([shared = shared_] {
    if (shared->rank == 0) {
      shared->serve();
    } else {
      shared->listen();
    }
  }).detach();
}

RankAgents::~RankAgents() {
  close();
  std::unique_lock lock(shared_->mutex);
  shared_->ending = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, kHelpersFarewell, [&] { return shared_->finished; });
}

bool RankAgents::ask(const Json& what, std::optional<std::vector<int64_t>> ranks,
                     std::function<void(const Answers&)> use, bool urgent) {
  const std::lock_guard lock(shared_->mutex);
  if (!urgent && shared_->questions.size() >= kMostQuestions) return false;
  shared_->questions.push_back({what, std::move(ranks), std::move(use)});
  shared_->changed.notify_all();
  return true;
}

void RankAgents::close() {
  const std::lock_guard lock(shared_->using_mutex);
  shared_->closed = true;
}

}  // namespace am::live
