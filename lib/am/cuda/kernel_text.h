// Source of the GPU kernels, in CUDA C++, compiled at run time (compiled_kernels.h).
#pragma once

#include <string>
#include <vector>

namespace am::cuda {

// Returns the source of the fused operators' kernels.
std::string operator_text();
// Returns the source of the kernel that draws initial values. It must be compiled with
// kUncontracted too, so that its bits equal the host's.
std::string draw_text();

inline constexpr const char* kUncontracted = "--fmad=false";
// NVRTC's options, for an architecture such as 90 and kernels of bfloat16 or of float32.
std::vector<std::string> compile_options(int architecture, bool bfloat16);

}  // namespace am::cuda
