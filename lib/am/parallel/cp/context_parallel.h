// Context parallelism of a decoder: every rank of the group "cp" computes a part of each sequence.
// Attention exchanges keys and values, or heads, by the plan's context.method.
#pragma once

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/nn/decoder.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::cp {

// Sets the decoder's sequence part and the attention function of each layer; does nothing if cp is
// 1. Call it after apply_tensor_parallel. The mesh must outlive the decoder.
void apply_context_parallel(nn::Decoder& decoder, const config::Plan& plan,
                            const layout::Layout& layout, const runtime::DeviceMesh& mesh);

// Gathers x_BtX, this rank's t positions of B sequences, from all ranks. Returns the complete
// sequences [B, T, ...] on every rank, in the order of positions, with padding at the end and
// without gradient. Collective.
at::Tensor whole_sequences(const at::Tensor& x_BtX, const nn::SequencePart& part,
                           const runtime::Group& group);

}  // namespace am::parallel::cp
