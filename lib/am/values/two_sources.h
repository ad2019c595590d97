// Comparing what two sources hold of a tensor, a few MiB at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "am/stored/tensor_source.h"
#include "am/values/parameter_view.h"

namespace am::values {

// Opens weights that a command names; `~` is the home. Throws Error(kUsage) for a plan.
std::unique_ptr<stored::TensorSource> open_weights_at(const std::string& path);

// Blocks of whole rows of both, as they are stored; they have one shape. Several threads visit them
// at once, each by its number; false ends it. Throws Error(kUsage) when any rank was interrupted;
// collective.
using VisitPair = std::function<bool(size_t number, const at::Tensor& a, const at::Tensor& b)>;
void for_each_pair(Session& session, const stored::TensorSource& left,
                   const stored::StoredTensor& a, const stored::TensorSource& right,
                   const stored::StoredTensor& b, const VisitPair& visit);

}  // namespace am::values
