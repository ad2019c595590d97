// Checks inside run_ranks: Catch's own macros may not be used from several threads at once.
#pragma once

#include <stdexcept>
#include <string>

// Throws where it is false; run_ranks passes the first failure on to the test.
#define RANK_CHECK(condition)                                                                   \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      throw std::runtime_error(std::string("failed: ") + #condition + " at " + __FILE__ + ":" + \
                               std::to_string(__LINE__));                                       \
    }                                                                                           \
  } while (false)
