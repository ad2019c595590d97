# Writes the source file with the text of the GPU kernels, for AmCuda.cmake:
#   cmake -DOUT=kernel_files.cpp -DKERNELS=lib/am/cuda/kernels -P write_kernel_files.cmake

include(${CMAKE_CURRENT_LIST_DIR}/embedded_literal.cmake)

set(source "// Written by scripts/cmake/write_kernel_files.cmake from lib/am/cuda/kernels/.
#include <array>
#include <string_view>

#include \"am/base/error.h\"
#include \"am/base/text.h\"
#include \"am/cuda/kernel_text.h\"

namespace am::cuda {
namespace {

using namespace std::string_view_literals;

struct KernelFile {
  std::string_view name, text;
};

")
append_array(KernelFile kFiles "${KERNELS}/*.cu" NAME_WE)
string(APPEND source "
}  // namespace

std::string_view kernel_file(std::string_view name) {
  for (const KernelFile& file : kFiles) {
    if (file.name == name) return file.text;
  }
  throw Error(ErrorKind::kInternal, cat(\"no file of am/cuda/kernels is called \", name));
}

}  // namespace am::cuda
")
file(WRITE ${OUT} "${source}")
