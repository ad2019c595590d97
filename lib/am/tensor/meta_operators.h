// Shapes on the meta device of operators that ATen has them for in Python only: what a decoder's
// step uses of them. With these a whole step runs on the meta device: it makes every tensor that a
// step on a device makes, and computes nothing. Products and attention obey the host's autocast, as
// the meta device has none of its own.
#pragma once

namespace am::tensor {

// Once for the process; further calls do nothing. Each operator throws std::runtime_error when a
// tensor of the host is among its arguments, which is a mistake there.
void register_meta_operators();

}  // namespace am::tensor
