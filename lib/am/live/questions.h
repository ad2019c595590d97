// Questions that rank 0 sends to all ranks through the job's store, and their answers.
//
// Note [Questions through the store]: all ranks on all machines reach the store of the rendezvous
// (runtime/store.h); it needs no port, password or connection besides the job's own. Rank 0 stores
// a question under the next number. A thread of every other rank waits for that number at the
// store's server, which costs nothing while there is no question, and stores its answer beside it.
// Rank 0 reads answers by blocks of ranks, one request per block. A rank without an answer at the
// timeout is stopped, dead or unreachable; its watchdog has published its last state.
#pragma once

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
  std::string process;  // "stopped", "ended", ..., if it is on rank 0's machine; else empty
  std::optional<Json> last_state;  // published by its watchdog
};

struct Answers {
  std::map<int64_t, Json> said;
  std::map<int64_t, Silent> silent;
};

// Rank 0's side. Not thread-safe.
class Questions {
 public:
  // `store` must outlive it; `size` ranks are in the job.
  Questions(c10d::Store& store, int64_t size) : store_(store), size_(size) {}

  // Returns the time that ranks have to answer: one second, and one more for every 16,000 ranks,
  // since the store serves requests one after another.
  static std::chrono::milliseconds patience(int64_t size);

  // Returns the answers of ranks 1 .. size - 1, or of rank `only`, which must be one of them.
  Answers ask(const Json& question, std::optional<int64_t> only);
  // Ends answer_questions on all ranks. Rethrows exceptions of the store.
  void end();

 private:
  void read(int64_t number, std::vector<int64_t> ranks, std::chrono::steady_clock::time_point until,
            Answers& answers);

  c10d::Store& store_;
  int64_t size_;
  int64_t last_ = 0;
};

// The side of every other rank: publishes `who` (its host and process), then answers questions
// until end(). Rethrows exceptions of the store if its connection breaks.
void answer_questions(c10d::Store& store, int64_t rank, const Json& who,
                      const std::function<Json(const Json& question)>& answer);

}  // namespace am::live
