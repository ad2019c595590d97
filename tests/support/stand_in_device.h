// A simulated device with separate memory, for tests without a GPU. Its device type is PyTorch's
// PrivateUse1.
//
// The device's tensors are in host memory, and its operators are the host's. An operator with
// operands on two devices throws, as with a GPU; the host and meta devices do not detect this
// mistake. A non-blocking copy between host and device is queued on the current stream. The copy
// runs before the next operator of that stream, or when a caller waits for the stream. Code that
// reads or reuses host memory too early therefore sees wrong values.
//
//   test::run_stand_ins(2, [&](const runtime::World& world) {
//     at::Tensor sum = at::ones({3}, world.device());
//     world.group().all_reduce(sum);        // as backend = "cuda:gloo" does on GPUs
//   });
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>

#include "am/runtime/world.h"

namespace am::test {

// Returns device `index` of eight. Ranks in one process must use different devices, because the
// autograd engine has one thread per device: a rank whose backward waits for another rank would
// block that thread.
c10::Device stand_in_device(int64_t index = 0);

// Lets the devices make `count` more allocations, after which they are out of memory. A negative
// `count` removes the limit.
void limit_allocations(int64_t count);

// Runs ranks in threads like runtime::run_ranks, each with its own stand-in device as current
// device. Collectives are ordered like NCCL's. Throws if a GPU could have executed the work in an
// order that changes values (stream_order.h).
void run_stand_ins(int64_t size, const std::function<void(const runtime::World&)>& body,
                   std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace am::test
