// The engine that runs an accelerator's collectives through a host engine: PyTorch's "cuda:gloo".
// It needs no NCCL, supports several ranks on one GPU, and sums in the host engine's order.
//
// Note [Staging]: a collective copies its input into host memory, waits for the current stream, and
// starts the host engine's collective; wait() waits for the result and queues the copy of the
// output on the current stream. On CUDA, the host memory is ATen's pinned memory, which is reused
// only after the copies queued from it have finished. Waiting for a stream blocks the thread that
// issues the collective; in a backward pass, that thread is the device's only autograd thread.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

// Returns an engine for tensors on `device` whose collectives run on `host`. Errors, timeouts and
// abort() are the host engine's.
std::shared_ptr<Engine> make_staged_engine(std::shared_ptr<Engine> host, c10::Device device);

}  // namespace am::runtime
