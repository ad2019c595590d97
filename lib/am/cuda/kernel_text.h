// Source of the GPU kernels, in CUDA C++, compiled at run time (compiled_kernels.h).
//
// The build embeds the files of am/cuda/kernels in the CUDA plugin. Tests also compile these files
// for the host and run the kernels there (tests/cuda/host_kernels.h).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace am::cuda {

// Returns the text of am/cuda/kernels/<name>.cu. Throws Error(kInternal) if there is no such file.
std::string_view kernel_file(std::string_view name);

// The kernels are divided into programs, which can be compiled at the same time: the norms, the
// kernel that draws initial values, and all other operators.
enum class Part { kOperators, kNorms, kDraw };
inline constexpr std::array kParts = {Part::kOperators, Part::kNorms, Part::kDraw};

// Returns the CUDA source of a program.
std::string text_of(Part part);
// Returns NVRTC's options for bfloat16 kernels if `bfloat16` is set, otherwise for float32 kernels.
// `architecture` is the GPU's compute capability without the point, for example "90" for 9.0, or
// "90a".
std::vector<std::string> compile_options(Part part, std::string_view architecture, bool bfloat16);

}  // namespace am::cuda
