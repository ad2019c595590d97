// Source of the GPU kernels, in CUDA C++, compiled at run time (compiled_kernels.h).
#pragma once

#include <string>
#include <vector>

namespace am::cuda {

// Returns the source of the fused operators' kernels.
std::string operator_text();
// Returns the source of the kernel that draws initial values. It must be compiled with
// kUncontracted in addition to compile_options(), so that its bits equal the host's.
std::string draw_text();

inline constexpr const char* kUncontracted = "--fmad=false";
// Returns NVRTC's options for bfloat16 kernels if `bfloat16` is set, otherwise for float32 kernels.
// `architecture` is ten times the compute capability, for example 90.
std::vector<std::string> compile_options(int architecture, bool bfloat16);

}  // namespace am::cuda
