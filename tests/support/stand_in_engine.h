// Orders the collectives of stand-in devices like NCCL's. Each collective runs on its group's
// stream, which waits for the current stream when the collective is issued. wait() makes the
// current stream wait for the collective.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::test {

// Returns an engine that runs collectives with `staged`, an engine of the same device, and records
// them in NCCL's order.
std::shared_ptr<runtime::Engine> in_nccl_order(std::shared_ptr<runtime::Engine> staged);

}  // namespace am::test
