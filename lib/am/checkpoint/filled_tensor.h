// For each tensor of a framework's checkpoint, the Hugging Face tensors that fill its rows: the
// inverse of a NameMap, for exports.
//
//   for (const FilledTensor& tensor : fill_all(names, source)) {
//     read_filled_rows(source, tensor, {0, 128}, out);   // rows 0-127 of the framework's matrix
//   }
//
// A fused tensor (queries, keys and values) or a stacked one (all layers or experts) is never
// assembled: any run of its rows is read from the Hugging Face tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "am/frameworks/name_map.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

struct FilledPart {
  std::string hub;
  int64_t copy = 0;         // index of the stacked matrix, row-major over the leading dims
  frameworks::RowMap rows;  // rows of that matrix
};

struct FilledTensor {
  std::string name;
  Shape shape;
  formats::Dtype dtype = formats::Dtype::kFloat32;  // dtype in the checkpoint that is read
  size_t in_front = 0;  // number of leading dims, which index stacked matrices
  std::vector<FilledPart> parts;

  // Number of rows of all stacked matrices together, and number of elements per row.
  int64_t rows() const;
  int64_t row_numel() const;
};

// Returns a tensor that `tensor` alone fills, with its name, shape and rows unchanged.
FilledTensor filled_by(const stored::StoredTensor& tensor);

// Returns the framework's tensors that the source's parameters fill. Throws Error(kFormat) listing
// the parameters that the map does not know, or the missing parts of a framework's tensor.
std::vector<FilledTensor> fill_all(const frameworks::NameMap& names,
                                   const stored::TensorSource& source);

// Reads rows [rows.offset, rows.offset + rows.size), counted over all stacked matrices, into `out`
// [rows, row_numel] of any dtype.
void read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                      const mesh::Extent& rows, const at::Tensor& out);
// Prefetches these rows from the source (TensorSource::prefetch).
void will_read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                           const mesh::Extent& rows);

}  // namespace am::checkpoint
