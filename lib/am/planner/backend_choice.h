// Which backend a plan runs on here: strategy.backend, or the best that this machine has.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/launch/environment/gpu_driver.h"

namespace am::planner {

// What keeps NCCL from running here; nothing: it can. Asked only where the answer matters, as it
// may take the loading of CUDA's libraries.
using CudaProbe = std::function<std::optional<launch::CudaProblem>()>;

// strategy.backend, whichever the strategy is; see config/backend.h.
std::optional<std::string> asked_backend(const config::Plan& plan);

// strategy.backend; where it is absent nccl with a GPU that this build can use, else gloo.
std::string backend_of(const config::Plan& plan, const CudaProbe& why_no_cuda);

// Adds "runtime.backend" for a backend that this machine lacks, or leaves a GPU idle.
void check_backend(const config::Plan& plan, const CudaProbe& why_no_cuda, Diagnostics& found);

}  // namespace am::planner
