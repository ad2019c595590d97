// A device whose memory is its own, without a GPU: PyTorch's PrivateUse1.
//
// Its tensors lie in host memory under another device type, and its operators are the host's. An
// operator with operands on two devices throws, as it would with a GPU, while the host and meta
// devices let such mistakes pass. A non-blocking copy between host and device is queued on the
// device's one stream: it happens before the next operator of the device or when somebody waits for
// the stream, so that who reads or reuses host memory too early has the wrong values.
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

// Number `index` of eight. Ranks of one process take different ones: the autograd engine has one
// thread for each, and a rank that waits for another in its backward holds it.
c10::Device stand_in_device(int64_t index = 0);

// As runtime::run_ranks, each rank on a stand-in device of its own, which is the current one.
void run_stand_ins(int64_t size, const std::function<void(const runtime::World&)>& body,
                   std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace am::test
