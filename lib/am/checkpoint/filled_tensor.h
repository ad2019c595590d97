// Finds the Hugging Face tensors from which an export assembles each tensor of a framework's
// checkpoint. fill_all() applies NameMap::from_hub to all Hugging Face tensors, and groups the
// results by framework tensor.
//
//   for (const FilledTensor& tensor : fill_all(names, source)) {
//     read_filled_rows(source, tensor, {0, 128}, out);   // rows 0-127 of the framework's matrix
//   }
//
// A fused tensor (queries, keys and values) or a stacked tensor (all layers or experts) is never
// assembled in memory as a whole: read_filled_rows() reads any range of its rows from the Hugging
// Face tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "am/frameworks/name_map.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

struct FilledPart {
  std::string hub;  // name of the Hugging Face tensor
  // Index of the stacked matrix to which `hub` is written. Matrices are counted in row-major order
  // over the leading dims.
  int64_t copy = 0;
  frameworks::RowMap rows;  // maps rows of `hub` to rows of this matrix
};

struct FilledTensor {
  std::string name;
  Shape shape;
  formats::Dtype dtype = formats::Dtype::kFloat32;  // dtype of the Hugging Face tensors
  size_t in_front = 0;  // number of leading dims, which index the stacked matrices; may be 0
  std::vector<FilledPart> parts;

  // Return the number of rows, over all stacked matrices, and the number of elements per row.
  int64_t rows() const;
  int64_t row_numel() const;
};

// Returns a FilledTensor with the name, shape and values of the single stored tensor `tensor`.
FilledTensor filled_by(const stored::StoredTensor& tensor);

// Returns the framework's tensors that are assembled from the source's parameters. Throws
// Error(kFormat) with a list of the parameters that the name map does not contain, or of the
// missing parts of a framework's tensor.
std::vector<FilledTensor> fill_all(const frameworks::NameMap& names,
                                   const stored::TensorSource& source);

// Reads rows [rows.offset, rows.offset + rows.size) of a tensor into `out` [rows.size, row_numel],
// which may have any dtype. Rows are counted over all stacked matrices.
void read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                      const mesh::Extent& rows, const at::Tensor& out);
// Prefetches the stored rows that read_filled_rows() will read, by TensorSource::prefetch().
void will_read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                           const mesh::Extent& rows);

}  // namespace am::checkpoint
