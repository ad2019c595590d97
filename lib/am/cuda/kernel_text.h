// Source of the GPU kernels, in CUDA C++, compiled at run time (compiled_kernels.h).
#pragma once

#include <string>
#include <vector>

namespace am::cuda {

// Kernels of operators.
std::string operator_text();
// Kernels that draw values. They need kUncontracted too, for the host's bits.
std::string draw_text();

inline constexpr const char* kUncontracted = "--fmad=false";
// NVRTC's options, for an architecture such as 90 and kernels of bfloat16 or of float32.
std::vector<std::string> compile_options(int architecture, bool bfloat16);

}  // namespace am::cuda
