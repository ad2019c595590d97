// A step that every rank takes, and that succeeds on all or fails on all: one rank's full disk must
// not leave the others waiting in the next collective.
#pragma once

#include <functional>

#include "am/runtime/group.h"

namespace am::checkpoint {

// Runs `body`; then all ranks learn of each other's failures. When there was one, `clean` runs and
// every rank throws the first failing rank's message (the failing ranks keep the kind of their own
// error).
void collective_step(const runtime::Group& group, const std::function<void()>& clean,
                     const std::function<void()>& body);

}  // namespace am::checkpoint
