// The down projection of a gated feed-forward, each row multiplied by its weight.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"

namespace am::nn {

// weight_R * linear(gated(gate_RF, up_RF), down_DF) -> RD. weight_R, in float32 or wider or in the
// rows' dtype, may be undefined: 1 for each row.
//
// Keeps gate, up and weight_R, not the product: the weights' gradient <dout, down a> equals <down^T
// dout, a>, and backward computes both factors anyway. Combining experts with weights thus keeps no
// more than adding them up would. `unread`: the value is not read; the result has only a shape and
// dtype.
at::Tensor weighed_down(const at::Tensor& gate_RF, const at::Tensor& up_RF,
                        const at::Tensor& weight_R, const at::Tensor& down_DF,
                        model::Activation activation, bool unread = false);

}  // namespace am::nn
