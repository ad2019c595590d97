// A decoder layer that keeps less than autograd would: what "full" and "selective" activation
// checkpointing mean here.
//
// Full keeps the layer's input. Backward computes everything again but the down projection, whose
// output it does not need.
//
// Selective keeps the layer's input; queries, keys and values as attention takes them (and before
// their norms, in families that have those); attention's output and statistics; the sum after
// attention; and the gate's product. Backward computes again the norms, the rotation where it
// follows a norm, the up projection and the activation. So each matrix product but one in seven is
// multiplied once, and no attention twice. PyTorch's per-operator policies keep every second
// product instead, about as many bytes.
//
// Mlp keeps all that autograd saves outside the feed-forward, and the feed-forward's input: what
// NeMo AutoModel's first releases wrapped.
//
// planner/layer_activations.cpp counts the same tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/nn/decoder.h"

namespace am::nn {

// All: x_BTD -> the layer's output, BTD. `layer` must outlive backward.
at::Tensor fully_checkpointed(const DecoderLayer& layer, const at::Tensor& x_BTD,
                              const Rotation& rotation);
at::Tensor selectively_checkpointed(const DecoderLayer& layer, const at::Tensor& x_BTD,
                                    const Rotation& rotation);

at::Tensor mlp_checkpointed(const DecoderLayer& layer, const at::Tensor& x_BTD,
                            const Rotation& rotation);

}  // namespace am::nn
