#include "am/live/helpers.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "am/base/host.h"
#include "am/base/text.h"
#include "am/control/frame.h"
#include "am/launch/cause/rank_state.h"
#include "am/launch/supervise/process_state.h"
#include "am/runtime/store.h"

namespace am::live {

namespace {

using HelperClock = std::chrono::steady_clock;

constexpr size_t kMostQuestions = 16;
// A wait in the store lasts so long at most, and begins anew: c10d writes a warning to stderr where
// one ends in vain, and its milliseconds are an int.
constexpr auto kStoreWait = std::chrono::hours(24 * 20);
constexpr auto kStoreLook = std::chrono::milliseconds(20);
constexpr auto kHelpersFarewell = std::chrono::milliseconds(1500);
constexpr const char* kEnd = "end";

std::string who_key(int64_t rank) { return cat("live/who/", rank); }
std::string question_key(int64_t number) { return cat("live/question/", number); }
std::string answer_key(int64_t number, int64_t rank) {
  return cat("live/answer/", number, "/", rank);
}

std::thread quiet_thread(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

// What the threads touch; they may outlive the Helpers, blocked in a store that does not answer.
struct Helpers::Shared {
  Shared(const runtime::World& world, std::shared_ptr<RankSelf> of)
      : rank(world.rank()), size(world.size()), self(std::move(of)) {
    if (size > 1) store = world.store()->clone();
  }

  struct Question {
    std::string what;
    std::optional<int64_t> only;
    std::function<void(const Answers&)> use;
  };

  const int64_t rank;
  const int64_t size;
  const std::shared_ptr<RankSelf> self;
  c10::intrusive_ptr<c10d::Store> store;  // of the one thread of this rank

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Question> questions;
  bool ending = false;
  bool finished = false;
  std::mutex using_mutex;  // while an answer is used
  bool closed = false;
  int64_t last_question = 0;

  // ---- of ranks beyond 0

  void listen() {
    try {
      runtime::store_set(*store, who_key(rank), dump_json(RankSelf::who(), -1));
      for (int64_t number = 1; answer(number); ++number) {
      }
    } catch (const std::exception&) {
      // The store has gone, and the job with it.
    }
    finish();
  }

  // False: it was the last one.
  bool answer(int64_t number) {
    const std::string key = question_key(number);
    for (;;) {
      const auto begun = HelperClock::now();
      try {
        store->wait({key}, kStoreWait);
        break;
      } catch (const std::exception&) {
        // Where the wait did not last, the store is gone.
        if (HelperClock::now() - begun < kStoreWait / 2) throw;
      }
    }
    const auto text = runtime::store_get(*store, key);
    const auto question = control::parse_message(text.value_or(""));
    if (!question) return true;
    const std::string what = control::text_in(*question, "what");
    if (what == kEnd) return false;
    const auto only = question->find("only");
    if (only != question->end() && *only != rank) return true;
    runtime::store_set(*store, answer_key(number, rank), dump_json(self->answer(what), -1));
    return true;
  }

  // ---- of rank 0

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || !questions.empty(); });
      if (questions.empty()) break;
      const Question question = std::move(questions.front());
      questions.pop_front();
      lock.unlock();
      Answers answers = collect(question);
      {
        const std::lock_guard use(using_mutex);
        if (!closed) question.use(answers);
      }
      lock.lock();
    }
    lock.unlock();
    try {
      if (store) {
        runtime::store_set(*store, question_key(++last_question),
                           dump_json(Json{{"what", kEnd}}, -1));
      }
    } catch (const std::exception&) {
      // Then the others' waits end too.
    }
    finish();
  }

  Answers collect(const Question& question) {
    Answers answers;
    const bool all = !question.only;
    if (all || *question.only == 0) answers.said[0] = self->answer(question.what);
    if (!store || (!all && *question.only == 0)) return answers;
    std::vector<int64_t> asked;
    for (int64_t each = 1; each < size; ++each) {
      if (all || *question.only == each) asked.push_back(each);
    }
    try {
      const int64_t number = ++last_question;
      Json json = {{"what", question.what}};
      if (!all) json["only"] = *question.only;
      runtime::store_set(*store, question_key(number), dump_json(json, -1));
      std::vector<std::string> keys;
      for (const int64_t each : asked) keys.push_back(answer_key(number, each));
      const auto end = HelperClock::now() + kPatience;
      while (!store->check(keys) && HelperClock::now() < end) {
        std::this_thread::sleep_for(kStoreLook);
      }
      for (const int64_t each : asked) take_answer(number, each, answers);
    } catch (const std::exception&) {
      for (const int64_t each : asked) {
        if (!answers.said.contains(each))
          answers.silent[each] = {"the job's store does not answer", {}};
      }
    }
    return answers;
  }

  void take_answer(int64_t number, int64_t from, Answers& answers) {
    if (const auto text = runtime::store_get(*store, answer_key(number, from))) {
      if (auto json = control::parse_message(*text)) {
        answers.said[from] = *std::move(json);
        store->deleteKey(answer_key(number, from));
        return;
      }
    }
    Silent silent;
    const auto who = control::parse_message(runtime::store_get(*store, who_key(from)).value_or(""));
    if (who && !boot_id().empty() && control::text_in(*who, "boot_id") == boot_id() &&
        control::text_in(*who, "host") == host_name()) {
      silent.process = launch::to_string(launch::process_state(who->at("pid").get<pid_t>()));
    }
    silent.last_state =
        control::parse_message(runtime::store_get(*store, launch::state_key(from)).value_or(""));
    answers.silent[from] = std::move(silent);
  }

  void finish() {
    const std::lock_guard lock(mutex);
    finished = true;
    changed.notify_all();
  }
};

Helpers::Helpers(const runtime::World& world, std::shared_ptr<RankSelf> self)
    : shared_(std::make_shared<Shared>(world, std::move(self))) {
  quiet_thread([shared = shared_] {
    if (shared->rank == 0) {
      shared->serve();
    } else {
      shared->listen();
    }
  }).detach();
}

Helpers::~Helpers() {
  close();
  std::unique_lock lock(shared_->mutex);
  shared_->ending = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, kHelpersFarewell, [&] { return shared_->finished; });
}

bool Helpers::ask(const std::string& what, std::optional<int64_t> only,
                  std::function<void(const Answers&)> use) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->questions.size() >= kMostQuestions) return false;
  shared_->questions.push_back({what, only, std::move(use)});
  shared_->changed.notify_all();
  return true;
}

void Helpers::close() {
  const std::lock_guard lock(shared_->using_mutex);
  shared_->closed = true;
}

}  // namespace am::live
