// Runs a part of a collective function so that it either succeeds or fails on all ranks. Without
// this, if one rank threw an exception, for example because its disk is full, all other ranks would
// wait for that rank in the next collective.
#pragma once

#include <functional>

#include "am/runtime/group.h"

namespace am::checkpoint {

// Runs `body`, then exchanges the ranks' errors. If any rank failed, runs `clean` on every rank;
// then each rank throws its own error or, if it has none, the error of the first rank that failed.
void collective_step(const runtime::Group& group, const std::function<void()>& clean,
                     const std::function<void()>& body);

}  // namespace am::checkpoint
