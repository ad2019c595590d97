// Finds, for an export, which Hugging Face tensors fill the rows of each tensor of a framework's
// checkpoint: the inverse of a NameMap.
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
  std::string hub;          // name of the Hugging Face tensor
  int64_t copy = 0;         // index of the stacked matrix that it fills, row-major
  frameworks::RowMap rows;  // the rows of that matrix that it fills
};

struct FilledTensor {
  std::string name;
  Shape shape;
  formats::Dtype dtype = formats::Dtype::kFloat32;  // dtype in the checkpoint that is read
  size_t in_front = 0;  // number of leading dims, which index stacked matrices
  std::vector<FilledPart> parts;

  // Return the number of rows of all stacked matrices together, and the number of elements per row.
  int64_t rows() const;
  int64_t row_numel() const;
};

// Returns a FilledTensor with the name, the shape and the rows of `tensor`, which alone fills it.
FilledTensor filled_by(const stored::StoredTensor& tensor);

// Returns the framework's tensors that the source's parameters fill. Throws Error(kFormat), which
// lists the parameters that the map does not know, or the missing parts of a framework's tensor.
std::vector<FilledTensor> fill_all(const frameworks::NameMap& names,
                                   const stored::TensorSource& source);

// Reads rows [rows.offset, rows.offset + rows.size) of a tensor, counted over all its stacked
// matrices, into `out` [rows, row_numel], which may have any dtype.
void read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                      const mesh::Extent& rows, const at::Tensor& out);
// Prefetches the rows that read_filled_rows() will read (TensorSource::prefetch).
void will_read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                           const mesh::Extent& rows);

}  // namespace am::checkpoint
