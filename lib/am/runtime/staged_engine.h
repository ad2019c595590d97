// The engine of an accelerator's tensors that runs a host engine's collectives: PyTorch's
// "cuda:gloo". It needs no NCCL, supports several ranks on one GPU, and sums in the host engine's
// order.
//
// Note [Staging]: a collective waits for the current stream, copies its input into host memory and
// starts the host's collective; wait() completes it and queues the copy of the output on the
// current stream. On CUDA, that memory is ATen's pinned memory, which is cached and reused only
// after the copies queued from it have finished. Since ranks are processes, waiting for a stream
// blocks the issuing thread, which in a backward pass is the device's only one.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

// `device` holds the tensors; `host` runs the collectives. Errors, timeouts and abort() are the
// host engine's.
std::shared_ptr<Engine> make_staged_engine(std::shared_ptr<Engine> host, c10::Device device);

}  // namespace am::runtime
