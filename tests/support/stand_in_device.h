// A device with separate memory that needs no GPU: PyTorch's PrivateUse1.
//
// Its tensors are in host memory under another device type, and its operators are the host's. An
// operator with operands on two devices throws, as it would with a GPU, while the host and meta
// devices do not detect such mistakes. A non-blocking copy between host and device is queued on its
// stream: it happens before the next operator of that stream or when a caller waits for the stream,
// so code that reads or reuses host memory too early sees wrong values.
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

// Returns device `index` of eight. Ranks of one process must use different ones: the autograd
// engine has one thread per device, and a rank that waits for another in its backward blocks it.
c10::Device stand_in_device(int64_t index = 0);

// Limits the devices to `count` more allocations, after which they are out of memory; negative:
// without a limit.
void limit_allocations(int64_t count);

// Like runtime::run_ranks, with a separate stand-in device for each rank as its current device.
// Collectives are ordered like NCCL's. Work that a GPU could execute in a wrong order is an error
// (stream_order.h).
void run_stand_ins(int64_t size, const std::function<void(const runtime::World&)>& body,
                   std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace am::test
