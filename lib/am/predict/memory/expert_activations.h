// Memory of a feed-forward with experts (nn/experts/): the bytes that are saved until its backward,
// without the outputs of the gate and up projections, and the bytes that are live only during its
// forward or its backward.
//
// Legend: N tokens that this rank routes (ActivationContext::routed_tokens()), D hidden size, k
// experts per token. Each token is copied to k rows, one for each of its experts.
#pragma once

#include "am/layout/local_layer.h"
#include "am/predict/memory/activations.h"

namespace am::predict {

struct ExpertBytes {
  double input = 0.0;    // inputs of the router, of the shared experts and of their gate
  double routing = 0.0;  // expert, position and token (three indices) of each of the N k rows
  double routed = 0.0;   // input rows of the experts, routing scores, routing weights
  // Bytes saved when a gate scales the output of shared experts that tp shards: the output after
  // its sum over tp ranks, and one factor per token. 0 for other layers. Every checkpointing mode
  // keeps these bytes, because the scaling is outside of every recompute segment.
  double share_of_sum = 0.0;
};

// Numbers of rows that this rank's experts process per micro-batch.
struct ExpertRows {
  double all = 0.0;  // rows that this rank's experts receive from all ranks
  // Rows whose gate and up outputs are saved; for the rest of `all` these outputs are recomputed in
  // parts (nn/experts/row_chunks.h).
  double kept = 0.0;
  double even = 0.0;  // rows per rank if routing is perfectly balanced
  // Rows of the expert with the most rows: at most one row per token.
  double of_one = 0.0;
};
ExpertRows expert_rows(const ActivationContext& context, const model::RouterSpec& router);

// Returns the bytes that a layer with a router saves. They do not include the experts' outputs,
// because the gradients of the routing weights are computed without them
// (nn/experts/weighed_down.h).
ExpertBytes expert_bytes(const ActivationContext& context, const layout::LocalLayer& layer,
                         double hidden);

// Returns the bytes that are live in forward, besides saved tensors, while the outputs of a token's
// experts are added. The live tensors are the outputs and, if no module saves it, the experts'
// input. Under expert parallelism, the message that returns the outputs and the rows that arrive
// are live, too.
double combining_bytes(const ActivationContext& context, const layout::LocalLayer& layer,
                       double hidden);

// Returns the bytes of activation gradients in the experts' backward. The backward of the sum over
// experts computes the gradients of all token rows. Then the shared experts run, then the routed
// experts one by one. An expert has gradients of its activation and of the outputs of gate and up.
// When an expert has finished, the saved outputs of gate and up are freed. `keeps_gate`: whether
// the saved outputs of gate stay until the layer's backward ends, as under selective checkpointing.
BackwardBytes expert_backward(const ActivationContext& context, const layout::LocalLayer& layer,
                              double hidden, bool keeps_gate);

}  // namespace am::predict
