// Conversion between a tensor-parallel rank's part of a parameter and the whole parameter,
// including matrices cut slice by slice and key heads shared by several ranks.
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
