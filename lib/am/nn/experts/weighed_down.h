// The down projection of a gated feed-forward, with each output row multiplied by its routing
// weight.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"

namespace am::nn {

// Returns weight_R * linear(gated(gate_RF, up_RF), down_DF), [R, D]. weight_R has the rows' dtype,
// or float32 or wider. If weight_R is undefined, each row has weight 1.
//
// Keeps gate, up and weight_R, not the product: with a = gated(gate, up), the gradient of a row's
// routing weight, <dout, down a>, equals <down^T dout, a>, and backward computes down^T dout and a
// anyway. Thus the multiplication by weights keeps no further tensor of the product's size.
// `unread` means that nothing reads the values; the result then has only a shape and dtype.
at::Tensor weighed_down(const at::Tensor& gate_RF, const at::Tensor& up_RF,
                        const at::Tensor& weight_R, const at::Tensor& down_DF,
                        model::Activation activation, bool unread = false);

}  // namespace am::nn
