// The writer's side of a dialect: which tensors of the hub fill each tensor that a framework
// stores, row by row.
//
//   for (const FilledTensor& tensor : fill_all(dialect, source)) {
//     read_filled_rows(source, tensor, {0, 128}, out);   // rows 0-127 of the stored matrix
//   }
//
// A fused or stacked tensor is never put together: any run of its rows is read from where the hub
// has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "am/stored/dialects/dialect.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

struct FilledPart {
  std::string hub;
  int64_t copy = 0;     // place in the dims in front, row-major
  stored::RowMap rows;  // of that copy
};

struct FilledTensor {
  std::string name;
  Shape shape;
  formats::Dtype dtype = formats::Dtype::kFloat32;  // of the hub's
  size_t in_front = 0;                              // dims that count copies
  std::vector<FilledPart> parts;

  // Rows of all copies, one after the other, and elements of each.
  int64_t rows() const;
  int64_t row_numel() const;
};

// The tensor as it is.
FilledTensor filled_by(const stored::StoredTensor& tensor);

// All of the source's parameters. Throws Error(kFormat) that lists names which the dialect does not
// know, or what a stored tensor lacks.
std::vector<FilledTensor> fill_all(const stored::Dialect& dialect,
                                   const stored::TensorSource& source);

// Stored rows [rows.offset, + size), of all copies one after the other, to `out` [rows, row_numel]
// of any dtype.
void read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                      const mesh::Extent& rows, const at::Tensor& out);
// TensorSource::will_read of what those rows are read from.
void will_read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                           const mesh::Extent& rows);

}  // namespace am::checkpoint
