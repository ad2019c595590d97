// Source of the GPU kernels, in CUDA C++, compiled at run time (compiled_kernels.h).
//
// The build embeds the files of am/cuda/kernels in the plugin. Tests also compile these files for
// the host, and run them there (tests/cuda/host_kernels.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace am::cuda {

// Returns the text of am/cuda/kernels/<name>.cu. Throws Error(kInternal) if there is no such file.
std::string_view kernel_file(std::string_view name);

// Returns the source of the fused operators' kernels.
std::string operator_text();
// Returns the source of the kernel that draws initial values. It must be compiled with
// kUncontracted in addition to compile_options(), so that its bits equal the host's.
std::string draw_text();

inline constexpr const char* kUncontracted = "--fmad=false";
// Returns NVRTC's options for bfloat16 kernels if `bfloat16` is set, otherwise for float32 kernels.
// `architecture` is ten times the compute capability, for example "90", or "90a".
std::vector<std::string> compile_options(std::string_view architecture, bool bfloat16);

}  // namespace am::cuda
