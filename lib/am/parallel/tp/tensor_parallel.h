// Applies a resolved TP plan to a decoder: gives each layer the transforms of its style.
#pragma once

#include "am/nn/decoder.h"
#include "am/planner/layout.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::tp {

// `layout` and `mesh` must outlive the decoder. Returns this rank's slice of the vocabulary when
// the head's output stays cut over it, else the whole vocabulary.
mesh::Extent apply_tensor_parallel(nn::Decoder& decoder, const planner::Layout& layout,
                                   const runtime::DeviceMesh& mesh);

}  // namespace am::parallel::tp
