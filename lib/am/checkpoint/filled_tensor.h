// Inverse of a NameMap, for writing: the tensors with Hugging Face names that fill each tensor that
// a framework stores, row by row.
//
//   for (const FilledTensor& tensor : fill_all(names, source)) {
//     read_filled_rows(source, tensor, {0, 128}, out);   // rows 0-127 of the stored matrix
//   }
//
// A fused or stacked tensor is never assembled: any run of its rows is read from the tensors that
// fill it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "am/frameworks/name_map.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

struct FilledPart {
  std::string hub;
  int64_t copy = 0;         // row-major index in the leading dims
  frameworks::RowMap rows;  // rows of that copy
};

struct FilledTensor {
  std::string name;
  Shape shape;
  formats::Dtype dtype = formats::Dtype::kFloat32;  // of the source
  size_t in_front = 0;                              // number of leading dims, which index copies
  std::vector<FilledPart> parts;

  // Number of rows of all copies together, and of elements per row.
  int64_t rows() const;
  int64_t row_numel() const;
};

// Returns a tensor filled by `tensor` alone, unchanged.
FilledTensor filled_by(const stored::StoredTensor& tensor);

// Returns the stored tensors that all of the source's parameters fill. Throws Error(kFormat)
// listing the names that the map does not know, or the missing parts of a stored tensor.
std::vector<FilledTensor> fill_all(const frameworks::NameMap& names,
                                   const stored::TensorSource& source);

// Reads rows [rows.offset, rows.offset + rows.size), counted over all copies, into `out`
// [rows, row_numel] of any dtype.
void read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                      const mesh::Extent& rows, const at::Tensor& out);
// Calls TensorSource::prefetch for the source of those rows.
void will_read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                           const mesh::Extent& rows);

}  // namespace am::checkpoint
