// The engine of an accelerator's tensors whose collectives are a host engine's: PyTorch's
// "cuda:gloo". It needs no NCCL, serves several ranks on one GPU, and sums in the host's order.
//
// Note [Staging]: a collective waits for the current stream, copies what it sends into host memory
// and begins the host's collective; wait() ends that, and queues the copy of what arrived on the
// current stream. On CUDA that memory is ATen's pinned memory, which is kept for reuse and given
// out again when the copies that were queued from it are over. Ranks are processes: to wait for a
// stream holds the thread that issues, which in a backward is the device's only one.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

// For tensors of `device`, by the collectives of `host`. Errors, timeouts and abort() are the host
// engine's.
std::shared_ptr<Engine> make_staged_engine(std::shared_ptr<Engine> host, c10::Device device);

}  // namespace am::runtime
