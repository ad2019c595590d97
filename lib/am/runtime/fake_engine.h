// The engine of World::fake. Its collectives send no data and complete immediately:
//
//   all-reduce, broadcast   leave the tensor unchanged
//   all-gather              copies the input to all parts of the output
//   reduce-scatter          copies this rank's part of the input to the output
//   all-to-all              fills the output with zeros
//   send, receive           leave the tensor unchanged
//
// Tensors on the meta device hold no values; the collectives leave them unchanged.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

// Returns the engine. `device`: the device of tensors that groups create for their own use.
std::shared_ptr<Engine> fake_engine(c10::Device device = c10::Device(c10::kMeta));

}  // namespace am::runtime
