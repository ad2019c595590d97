// Meta-device implementations of those operators of a decoder's step for which ATen has meta
// functions in Python only. With these operators, a whole step runs on the meta device. This step
// allocates every tensor that a step on a real device allocates, and computes nothing. Linear
// layers and attention follow the host's autocast, because there is no autocast for the meta
// device.
#pragma once

namespace am::tensor {

// Registers the operators once per process; further calls do nothing. To reveal bugs in callers,
// all operators but linear throw std::runtime_error if one of their main arguments has at least one
// dim and is not on the meta device.
void register_meta_operators();

}  // namespace am::tensor
