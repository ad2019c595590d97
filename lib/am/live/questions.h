// Sends requests from rank 0 to all ranks through the store of the job, and collects the answers.
//
// Note [Questions through the store]: ranks on all machines can reach the store of the rendezvous
// (runtime/store.h), so questions need no other port, password or connection. Rank 0 numbers its
// questions and stores each one under its number. On every other rank, a thread waits until the
// store contains the next question, and then stores the rank's answer. While there is no question,
// the waiting costs nothing. Rank 0 reads the answers in blocks of ranks. A rank whose answer is
// missing at the timeout may be stopped, dead or unreachable. Its last known state is the state
// that its watchdog published.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "am/base/json.h"

namespace am::live {

// A rank that did not answer.
struct Silent {
  // State of the process, for example "stopped" or "ended"; empty if the process is not known to be
  // on this machine. If the store does not answer, this text states so instead.
  std::string process;
  std::optional<Json> last_state;  // last state that the watchdog of the rank published
  pid_t pid = 0;                   // process id of the rank; 0 if not known to be on this machine
};

struct Answers {
  std::map<int64_t, Json> said;      // answers, by rank
  std::map<int64_t, Silent> silent;  // ranks that did not answer
};

// On rank 0: sends questions to the other ranks through the store, and reads their answers. Not
// thread-safe.
class Questions {
 public:
  // `store` must outlive this object. `size` is the number of ranks in the job.
  Questions(c10d::Store& store, int64_t size) : store_(store), size_(size) {}

  // Returns the time within which `size` ranks must answer: one second, plus one second per 16,000
  // ranks, because the store handles requests one after another.
  static std::chrono::milliseconds patience(int64_t size);

  // Asks all ranks except rank 0, or only those in `ranks`, and returns their answers. `ranks` must
  // be in ascending order; a 0 in it is ignored.
  Answers ask(const Json& question, const std::optional<std::vector<int64_t>>& ranks);
  // Makes answer_questions() return on all other ranks. Rethrows exceptions of the store.
  void end();

 private:
  void read(int64_t number, std::vector<int64_t> ranks, std::chrono::steady_clock::time_point until,
            Answers& answers);

  c10d::Store& store_;
  int64_t size_;
  int64_t last_ = 0;
};

// On every rank except rank 0: answers the questions of rank 0. Publishes `who`, the host and
// process of this rank. Then stores answer(question) for each question to this rank, until rank 0
// calls end(). Rethrows exceptions of the store if the connection to it breaks.
void answer_questions(c10d::Store& store, int64_t rank, const Json& who,
                      const std::function<Json(const Json& question)>& answer);

}  // namespace am::live
