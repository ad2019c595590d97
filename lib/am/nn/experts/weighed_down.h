// The down projection of a gated feed-forward, with each output row multiplied by its routing
// weight. Legend: R rows, F feed-forward, D hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/spec.h"

namespace am::nn {

// Returns weight_R * linear(gated(gate_RF, up_RF), down_DF), [R, D]. weight_R is in the rows'
// dtype, or in float32 or wider. If weight_R is undefined, each row has weight 1.
//
// Forward keeps gate, up and weight_R, but not the product down a, where a = gated(gate, up). Let
// dout be the gradient of an output row. The gradient of the row's routing weight is
// <dout, down a> = <down^T dout, a>. Backward computes down^T dout and a in any case, so the
// multiplication by weights keeps no further tensor of the product's size. `unread` means that
// nothing reads the values; the result then has only a shape and dtype.
at::Tensor weighed_down(const at::Tensor& gate_RF, const at::Tensor& up_RF,
                        const at::Tensor& weight_R, const at::Tensor& down_DF,
                        model::Activation activation, bool unread = false);

}  // namespace am::nn
