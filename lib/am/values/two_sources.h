// Compares a tensor of two sources, a few MiB at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "am/stored/tensor_source.h"
#include "am/values/parameter_view.h"

namespace am::values {

// Opens the weights that a command names; expands `~`. Throws Error(kUsage) for a plan.
std::unique_ptr<stored::TensorSource> open_weights_at(const std::string& path);

// Visits blocks of whole rows of both tensors, which must have one shape, in their stored dtypes.
// Several threads call `visit` concurrently; `number` is the block's index, and false ends the
// visit. Throws Error(kUsage) if any rank was interrupted; collective.
using VisitPair = std::function<bool(size_t number, const at::Tensor& a, const at::Tensor& b)>;
void for_each_pair(Session& session, const stored::TensorSource& left,
                   const stored::StoredTensor& a, const stored::TensorSource& right,
                   const stored::StoredTensor& b, const VisitPair& visit);

}  // namespace am::values
