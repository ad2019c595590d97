// The backend that a plan runs on: strategy.backend, or the best one available on this machine.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/launch/environment/gpu_driver.h"

namespace am::layout {

// Returns why NCCL cannot run on this machine, or nothing if NCCL can run. The probe may load
// CUDA's libraries, so the functions below call the probe only if they need the result.
using CudaProbe = std::function<std::optional<launch::CudaProblem>()>;

// Returns strategy.backend, or nothing if the plan leaves the key out. config/backend.h describes
// the values.
std::optional<std::string> asked_backend(const config::Plan& plan);

// Returns strategy.backend. If the plan leaves the key out, returns "nccl" if this build can use a
// GPU of this machine, and "gloo" otherwise.
std::string backend_of(const config::Plan& plan, const CudaProbe& why_no_cuda);

// Adds a "runtime.backend" error if this machine cannot run the backend that the plan names. If the
// plan names no backend, adds a warning if GPUs of this machine stay unused.
void check_backend(const config::Plan& plan, const CudaProbe& why_no_cuda, Diagnostics& found);

}  // namespace am::layout
