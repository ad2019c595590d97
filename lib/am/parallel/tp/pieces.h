// Conversion between a tensor-parallel rank's part of a parameter and the whole parameter,
// including matrices cut slice by slice and key heads shared by several ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/layout/layout.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::tp {

// `local` [parameter.tp_shape] of each tp rank -> [parameter.shape]. Collective over tp if the
// parameter is cut. Of a part that several ranks hold, the last rank's values are used.
at::Tensor gather_parameter(const at::Tensor& local, const layout::ParameterLayout& parameter,
                            const runtime::DeviceMesh& mesh);
// [parameter.shape] -> this rank's [parameter.tp_shape].
at::Tensor own_pieces(const at::Tensor& whole, const layout::ParameterLayout& parameter,
                      const runtime::DeviceMesh& mesh);

}  // namespace am::parallel::tp
