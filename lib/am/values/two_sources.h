// Reads two checkpoints side by side to compare their tensors, a few MiB at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "am/stored/tensor_source.h"
#include "am/values/parameter_view.h"

namespace am::values {

// Opens the weights at a path that the user specified, which may begin with `~`. Throws
// Error(kUsage) if the path is that of a plan.
std::unique_ptr<stored::TensorSource> open_weights_at(const std::string& path);

// Reads tensor `a` from `left` and tensor `b` from `right`, which must have the same shape, in
// blocks of whole rows. Calls `visit` with each pair of blocks in their stored dtypes, concurrently
// on several threads, until a call returns false. `number` is the index of the block. Throws
// Error(kUsage) if the user interrupted any rank. Collective.
using VisitPair = std::function<bool(size_t number, const at::Tensor& a, const at::Tensor& b)>;
void for_each_pair(Session& session, const stored::TensorSource& left,
                   const stored::StoredTensor& a, const stored::TensorSource& right,
                   const stored::StoredTensor& b, const VisitPair& visit);

}  // namespace am::values
