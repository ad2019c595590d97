// Gathers a whole parameter from the parts of the tensor-parallel ranks, and selects a rank's part
// of a whole parameter. Both functions also support fused matrices that tp cuts slice by slice, and
// key heads that several ranks hold (ParameterLayout::tp_slices).
#pragma once

#include <ATen/core/Tensor.h>

#include "am/layout/layout.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::tp {

// Returns the complete parameter [parameter.shape], gathered from each tp rank's `local`
// [parameter.tp_shape]. Collective over tp if the parameter is sharded. If several ranks hold the
// same part, the last rank's values are used.
at::Tensor gather_parameter(const at::Tensor& local, const layout::ParameterLayout& parameter,
                            const runtime::DeviceMesh& mesh);
// Returns this rank's part [parameter.tp_shape] of the complete parameter `whole`
// [parameter.shape].
at::Tensor own_pieces(const at::Tensor& whole, const layout::ParameterLayout& parameter,
                      const runtime::DeviceMesh& mesh);

}  // namespace am::parallel::tp
