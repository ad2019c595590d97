// Meta-device implementations of those operators of a decoder's step for which ATen has meta
// functions in Python only. With these operators, a whole step runs on the meta device: it
// allocates every tensor that a step on a real device allocates, and computes nothing. Linear
// layers and attention follow the host's autocast, because the meta device has none.
#pragma once

namespace am::tensor {

// Registers the operators once per process; further calls do nothing. The operators throw
// std::runtime_error if an argument with at least one dim is on the host, which is a bug in the
// caller.
void register_meta_operators();

}  // namespace am::tensor
