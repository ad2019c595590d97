// Expert parallelism of a decoder: each rank of the group "ep" holds some of every layer's experts,
// and tokens are sent to the ranks of their experts.
#pragma once

#include "am/nn/decoder.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::ep {

// Call it after tensor and context parallelism, which determine the tokens of a rank. The mesh must
// outlive the decoder.
void apply_expert_parallel(nn::Decoder& decoder, const runtime::DeviceMesh& mesh);

}  // namespace am::parallel::ep
