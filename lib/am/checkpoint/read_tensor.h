// Reads stored tensors into libtorch tensors.
//
//   at::Tensor slice = at::empty({512, 4096}, at::kBFloat16);
//   read(*source, "model.embed_tokens.weight", {{1024, 0}, {512, 4096}}, slice);
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "am/stored/tensor_source.h"

namespace am::checkpoint {

// Copies a box of the named tensor into `out` [box.shape], which may have any dtype and device.
// Converts or moves values in blocks of rows of at most 8 Mi elements; a longer row is a block by
// itself. Throws the errors of TensorSource::read().
void read(const stored::TensorSource& source, std::string_view name, const mesh::Box& box,
          const at::Tensor& out);
// Returns the full tensor `name` in its stored dtype. Throws Error(kFormat) if no tensor has this
// name.
at::Tensor read_all(const stored::TensorSource& source, std::string_view name);

}  // namespace am::checkpoint
