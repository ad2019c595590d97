// Between what a tensor-parallel rank has of a parameter and the whole: matrices that are cut slice
// by slice, and key heads that ranks share, included.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/planner/layout.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel::tp {

// `local` [parameter.tp_shape] of each tp rank -> [parameter.shape]. Collective over tp where the
// parameter is cut. Of what ranks share the last one's counts.
at::Tensor gather_parameter(const at::Tensor& local, const planner::ParameterLayout& parameter,
                            const runtime::DeviceMesh& mesh);
// [parameter.shape] -> this rank's [parameter.tp_shape].
at::Tensor own_pieces(const at::Tensor& whole, const planner::ParameterLayout& parameter,
                      const runtime::DeviceMesh& mesh);

}  // namespace am::parallel::tp
