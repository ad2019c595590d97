// A device whose memory is its own, without a GPU: PyTorch's PrivateUse1.
//
// Its tensors lie in host memory under another device type, and its operators are the host's. What
// it is for: an operator with operands on two devices throws, as it would with a GPU, while the
// host and meta devices let such mistakes pass.
//
//   runtime::DeviceMesh mesh(world, layout.mesh, test::stand_in_device(world.rank()));
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "am/runtime/device_mesh.h"

namespace am::test {

// Number `index` of eight. Ranks of one process take different ones: the autograd engine has one
// thread for each, and a rank that waits for another in its backward holds it.
c10::Device stand_in_device(int64_t index = 0);

// Lets the mesh's groups exchange tensors of the device too, through their host engines.
void exchange_between_stand_ins(const runtime::DeviceMesh& mesh);

}  // namespace am::test
