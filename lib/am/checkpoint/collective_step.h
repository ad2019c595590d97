// Runs a part of a collective function so that it succeeds on all ranks or fails on all ranks. If
// one rank's disk is full, for example, the other ranks must not wait for it in the next
// collective.
#pragma once

#include <functional>

#include "am/runtime/group.h"

namespace am::checkpoint {

// Runs `body`, then exchanges the ranks' errors. If any rank failed, `clean` runs on every rank,
// and each rank throws: its own error if it failed, otherwise the error of the first rank that
// failed.
void collective_step(const runtime::Group& group, const std::function<void()>& clean,
                     const std::function<void()>& body);

}  // namespace am::checkpoint
