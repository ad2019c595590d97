// Context parallelism of a decoder: every rank of the group "cp" computes a part of each sequence,
// and attention exchanges keys and values by the plan's context.method.
#pragma once

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/nn/decoder.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::cp {

// Call it after apply_tensor_parallel. The mesh must outlive the decoder.
void apply_context_parallel(nn::Decoder& decoder, const config::Plan& plan,
                            const layout::Layout& layout, const runtime::DeviceMesh& mesh);

// Gathers x_BtX, this rank's part of each sequence, from all ranks of the group: the whole
// sequences, in order and with their padding at the end, on every rank; without gradient.
// Collective.
at::Tensor whole_sequences(const at::Tensor& x_BtX, const nn::SequencePart& part,
                           const runtime::Group& group);

}  // namespace am::parallel::cp
