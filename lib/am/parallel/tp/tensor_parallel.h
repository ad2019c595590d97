// Applies a resolved TP plan to a decoder: sets each layer's input and output transforms according
// to its style.
#pragma once

#include "am/layout/layout.h"
#include "am/nn/decoder.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::tp {

// Applies the TP plan of `layout` to the decoder. Returns this rank's slice of the vocabulary if
// the head's output stays sharded over the vocabulary, otherwise the whole vocabulary. `layout` and
// `mesh` must outlive the decoder.
mesh::Extent apply_tensor_parallel(nn::Decoder& decoder, const layout::Layout& layout,
                                   const runtime::DeviceMesh& mesh);

// Makes the decoder's linear layers with Linear::fp8_allowed multiply in FP8. Does nothing with
// Fp8Recipe::kNone. If tp shards a dim over which an FP8 scale is computed, the scale is equal on
// all tp ranks. `layout` and `mesh` must outlive the decoder.
void apply_fp8(nn::Decoder& decoder, config::Fp8Recipe recipe, const layout::Layout& layout,
               const runtime::DeviceMesh& mesh);

}  // namespace am::parallel::tp
