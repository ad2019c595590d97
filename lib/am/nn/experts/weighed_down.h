// A gated feed-forward's last product, each row of it times a weight of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"

namespace am::nn {

// weight_R * linear(gated(gate_RF, up_RF), down_DF) -> RD. weight_R, in float32 or wider, or in the
// rows' dtype, may be undefined: 1 for each row.
//
// Keeps gate, up and weight_R, not the product: the weights' gradient <dout, down a> is
// <down^T dout, a>, of which backward has both factors. So combining experts by their tokens'
// weights keeps no more than adding them up would. `unread`: nobody looks at the value, which has
// its shape and dtype alone.
at::Tensor weighed_down(const at::Tensor& gate_RF, const at::Tensor& up_RF,
                        const at::Tensor& weight_R, const at::Tensor& down_DF,
                        model::Activation activation, bool unread = false);

}  // namespace am::nn
