// Context parallelism of a decoder: every rank of the group "cp" computes a part of each sequence,
// and attention sees all of it by the plan's context.method.
#pragma once

#include "am/config/plan.h"
#include "am/nn/decoder.h"
#include "am/planner/layout.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::cp {

// After tensor parallelism. The mesh must outlive the decoder.
void apply_context_parallel(nn::Decoder& decoder, const config::Plan& plan,
                            const planner::Layout& layout, const runtime::DeviceMesh& mesh);

// x_BtX, this rank's part of each sequence -> those of all ranks in the sequence's order, with its
// padding behind: on every rank, without gradient. Collective.
at::Tensor whole_sequences(const at::Tensor& x_BtX, const nn::SequencePart& part,
                           const runtime::Group& group);

}  // namespace am::parallel::cp
