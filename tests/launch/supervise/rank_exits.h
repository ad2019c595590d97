// Helpers that make RankExit values for tests.
#pragma once

#include <string>

#include "am/launch/cause/job_result.h"

namespace launch_test {

inline am::launch::RankExit failed(int64_t rank, int status, int signal, double time) {
  am::launch::RankExit exit;
  exit.rank = rank;
  exit.exit_status = status;
  exit.signal = signal;
  exit.time = time;
  return exit;
}

inline am::launch::RankExit reported(int64_t rank, const std::string& kind, double time) {
  am::launch::RankExit exit = failed(rank, 1, 0, time + 0.5);
  exit.error = am::launch::RankError{};
  exit.error->rank = rank;
  exit.error->kind = kind;
  exit.error->message = "message of " + std::to_string(rank);
  exit.error->time = time;
  return exit;
}

// Returns the exit of a rank whose collective timed out because the ranks `missing` did not arrive.
inline am::launch::RankExit witness(int64_t rank, std::vector<int64_t> missing, double time) {
  am::launch::RankExit exit = reported(rank, am::launch::kHangError, time);
  exit.error->missing = std::move(missing);
  return exit;
}

inline am::launch::RankExit stopped(int64_t rank, int signal, double time) {
  am::launch::RankExit exit = failed(rank, 0, signal, time);
  exit.stopped = true;
  return exit;
}

}  // namespace launch_test
