// Context parallelism of a decoder: every rank of the group "cp" computes a part of each sequence,
// and attention communicates by the plan's context.method.
#pragma once

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/nn/decoder.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::cp {

// Prepares the decoder for context parallelism; call it after apply_tensor_parallel. The mesh must
// outlive the decoder.
void apply_context_parallel(nn::Decoder& decoder, const config::Plan& plan,
                            const layout::Layout& layout, const runtime::DeviceMesh& mesh);

// Returns complete sequences on every rank, gathered from x_BtX, which is this rank's part of each
// sequence. The result is in the order of the sequence, with padding at the end, and has no
// gradient. Collective.
at::Tensor whole_sequences(const at::Tensor& x_BtX, const nn::SequencePart& part,
                           const runtime::Group& group);

}  // namespace am::parallel::cp
