// Expert parallelism of a decoder: each rank of the group "ep" has some of every layer's experts,
// and tokens go to where theirs are.
#pragma once

#include "am/nn/decoder.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::ep {

// After tensor and context parallelism, which decide what tokens a rank has. The mesh must outlive
// the decoder.
void apply_expert_parallel(nn::Decoder& decoder, const runtime::DeviceMesh& mesh);

}  // namespace am::parallel::ep
