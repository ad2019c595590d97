// Applies a resolved TP plan to a decoder: gives each layer the transforms of its style.
#pragma once

#include "am/layout/layout.h"
#include "am/nn/decoder.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::tp {

// `layout` and `mesh` must outlive the decoder. Returns this rank's slice of the vocabulary if the
// head's output stays cut over it, otherwise the whole vocabulary.
mesh::Extent apply_tensor_parallel(nn::Decoder& decoder, const layout::Layout& layout,
                                   const runtime::DeviceMesh& mesh);

}  // namespace am::parallel::tp
