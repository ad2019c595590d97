// collective_step() makes a part of a collective function succeed on all ranks or fail on all
// ranks. Without collective_step(), if one rank threw an exception, for example because its disk is
// full, all other ranks would wait for that rank in the next collective.
#pragma once

#include <functional>

#include "am/runtime/group.h"

namespace am::checkpoint {

// Runs `body`, then exchanges the ranks' errors. If any rank failed, runs `clean` on every rank.
// Each rank then throws its own error or, if it has none, the error of the first rank that failed.
// Collective over `group`.
void collective_step(const runtime::Group& group, const std::function<void()>& clean,
                     const std::function<void()>& body);

}  // namespace am::checkpoint
