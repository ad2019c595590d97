// The engine of World::fake, whose collectives complete immediately, as if all ranks had this
// rank's tensors and a sum over ranks were one rank's value: an all-reduce or a broadcast leaves
// its tensor unchanged, an all-gather copies its input to all parts of the output, and a
// reduce-scatter returns this rank's part of the input. An all-to-all fills its output with zeros;
// send and receive leave tensors unchanged. Tensors on the meta device are not touched.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

// `device` is the device of tensors that groups create for their own use.
std::shared_ptr<Engine> fake_engine(c10::Device device = c10::Device(c10::kMeta));

}  // namespace am::runtime
