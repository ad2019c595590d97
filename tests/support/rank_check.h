// RANK_CHECK replaces Catch's macros on the ranks of run_ranks, because Catch's macros must not be
// used from several threads concurrently.
#pragma once

#include <stdexcept>
#include <string>

// Throws if the condition is false; run_ranks rethrows the first failure in the test.
#define RANK_CHECK(condition)                                                                   \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      throw std::runtime_error(std::string("failed: ") + #condition + " at " + __FILE__ + ":" + \
                               std::to_string(__LINE__));                                       \
    }                                                                                           \
  } while (false)
