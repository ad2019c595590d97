// Meta-device implementations of operators of a decoder's step for which ATen has shape functions
// in Python only. With these a whole step runs on the meta device: it allocates every tensor that a
// step on a device does, and computes nothing. Matrix products and attention follow the host's
// autocast, because the meta device has none.
#pragma once

namespace am::tensor {

// Registers the operators once per process; further calls do nothing. Each operator throws
// std::runtime_error if an argument is on the host, which is a bug in the caller.
void register_meta_operators();

}  // namespace am::tensor
