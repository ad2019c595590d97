// Collectives of stand-in devices, ordered like NCCL's: each runs on its group's stream, which
// waits for the current stream when the collective is issued; in wait() the current stream waits
// for it.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::test {

// Returns an engine that computes values with `staged`, an engine of the same device.
std::shared_ptr<runtime::Engine> in_nccl_order(std::shared_ptr<runtime::Engine> staged);

}  // namespace am::test
