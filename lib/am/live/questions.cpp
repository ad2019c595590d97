#include "am/live/questions.h"

#include <unistd.h>

#include <algorithm>
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

using QuestionClock = std::chrono::steady_clock;

// Timeout of one wait for a question, after which the wait is repeated. The timeout is long because
// c10d prints a warning to stderr at each timeout. In milliseconds, it must fit into an int.
constexpr auto kStoreWait = std::chrono::hours(24 * 20);
// Time between two checks for answers in the store, doubled after each check up to kLongestLook.
constexpr auto kFirstLook = std::chrono::milliseconds(1);
constexpr auto kLongestLook = std::chrono::milliseconds(20);
constexpr size_t kRanksOfRequest = 1024;
constexpr const char* kEnd = "end";

std::string who_key(int64_t rank) { return cat("live/who/", rank); }
std::string question_key(int64_t number) { return cat("live/question/", number); }
std::string answer_key(int64_t number, int64_t rank) {
  return cat("live/answer/", number, "/", rank);
}

// Waits until rank 0 has stored the question with this number, and returns the question; nothing if
// the stored text cannot be parsed.
std::optional<Json> await_question(c10d::Store& store, int64_t number) {
  const std::string key = question_key(number);
  for (;;) {
    const auto begun = QuestionClock::now();
    try {
      store.wait({key}, kStoreWait);
      break;
    } catch (const std::exception&) {
      // A wait that ended before its timeout means that the connection to the store is lost.
      if (QuestionClock::now() - begun < kStoreWait / 2) throw;
    }
  }
  return control::parse_message(runtime::store_get(store, key).value_or(""));
}

// Returns the messages stored under the keys; nothing for a key that does not exist. Sends only two
// requests to the store if all keys exist.
std::vector<std::optional<Json>> read_messages(c10d::Store& store,
                                               const std::vector<std::string>& keys) {
  std::vector<std::optional<Json>> messages;
  if (store.check(keys)) {
    for (const auto& bytes : store.multiGet(keys)) {
      messages.push_back(control::parse_message(std::string(bytes.begin(), bytes.end())));
    }
    return messages;
  }
  for (const std::string& key : keys) {
    messages.push_back(control::parse_message(runtime::store_get(store, key).value_or("")));
  }
  return messages;
}

template <typename KeyOf>
std::vector<std::string> keys_of(const std::vector<int64_t>& ranks, const KeyOf& key) {
  std::vector<std::string> keys;
  for (const int64_t rank : ranks) keys.push_back(key(rank));
  return keys;
}

// Returns the process id of a rank; 0 if the rank is not known to be on this machine.
pid_t process_here(const std::optional<Json>& who) {
  const bool here = who && !boot_id().empty() && control::text_in(*who, "boot_id") == boot_id() &&
                    control::text_in(*who, "host") == host_name();
  if (!here || !who->value("pid", Json()).is_number_integer()) return 0;
  return who->at("pid").get<pid_t>();
}

}  // namespace

std::chrono::milliseconds Questions::patience(int64_t size) {
  return std::chrono::milliseconds(1000 + size / 16);
}

Answers Questions::ask(const Json& question, const std::optional<std::vector<int64_t>>& ranks) {
  Answers answers;
  std::vector<int64_t> asked;
  for (int64_t rank = 1; rank < size_; ++rank) {
    if (!ranks || std::binary_search(ranks->begin(), ranks->end(), rank)) asked.push_back(rank);
  }
  try {
    const int64_t number = ++last_;
    Json json = question;
    if (ranks) json["ranks"] = asked;
    runtime::store_set(store_, question_key(number), dump_json(json, -1));
    const auto until = QuestionClock::now() + patience(size_);
    for (size_t begin = 0; begin < asked.size(); begin += kRanksOfRequest) {
      const size_t end = std::min(asked.size(), begin + kRanksOfRequest);
      read(number,
           {asked.begin() + static_cast<ptrdiff_t>(begin),
            asked.begin() + static_cast<ptrdiff_t>(end)},
           until, answers);
    }
  } catch (const std::exception&) {
    for (const int64_t rank : asked) {
      if (!answers.said.contains(rank)) {
        answers.silent[rank] = {"unknown: the job's store does not answer", {}};
      }
    }
  }
  return answers;
}

void Questions::read(int64_t number, std::vector<int64_t> ranks, QuestionClock::time_point until,
                     Answers& answers) {
  const auto keys = keys_of(ranks, [&](int64_t rank) { return answer_key(number, rank); });
  for (auto look = kFirstLook; !store_.check(keys) && QuestionClock::now() < until;) {
    std::this_thread::sleep_for(look);
    look = std::min(2 * look, kLongestLook);
  }
  auto messages = read_messages(store_, keys);
  std::vector<int64_t> silent;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (messages[i]) {
      answers.said[ranks[i]] = *std::move(messages[i]);
    } else {
      silent.push_back(ranks[i]);
    }
  }
  if (silent.empty()) return;
  const auto who = read_messages(store_, keys_of(silent, who_key));
  auto states = read_messages(store_, keys_of(silent, launch::state_key));
  for (size_t i = 0; i < silent.size(); ++i) {
    const pid_t pid = process_here(who[i]);
    const std::string process = pid == 0 ? "" : launch::to_string(launch::process_state(pid));
    answers.silent[silent[i]] = {process, std::move(states[i]), pid};
  }
}

void Questions::end() {
  runtime::store_set(store_, question_key(++last_), dump_json(Json{{"what", kEnd}}, -1));
}

void answer_questions(c10d::Store& store, int64_t rank, const Json& who,
                      const std::function<Json(const Json& question)>& answer) {
  runtime::store_set(store, who_key(rank), dump_json(who, -1));
  std::string answered;  // key of this rank's previous answer
  for (int64_t number = 1;; ++number) {
    const auto question = await_question(store, number);
    if (!question) continue;
    if (control::text_in(*question, "what") == kEnd) return;
    const auto ranks = question->find("ranks");
    if (ranks != question->end() && std::find(ranks->begin(), ranks->end(), rank) == ranks->end()) {
      continue;
    }
    const std::string key = answer_key(number, rank);
    runtime::store_set(store, key, dump_json(answer(*question), -1));
    // Deletes the previous answer. Rank 0 no longer needs it, because rank 0 has sent another
    // question.
    if (!answered.empty()) store.deleteKey(answered);
    answered = key;
  }
}

}  // namespace am::live
