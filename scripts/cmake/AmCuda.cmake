# Builds libautomesh_cuda.so, a plugin that libautomesh loads when a plan uses a GPU. The plugin
# contains all code that needs CUDA (lib/am/cuda): a rank's GPU, NCCL groups, and kernels that NVRTC
# compiles at run time.
#
#   -DAM_WITH_CUDA=AUTO                 built if all that it needs is found; a status line reports the result
#   -DAM_WITH_CUDA=ON|OFF               ON: a missing dependency is an error; OFF: never built
#   -DAM_NCCL_INCLUDE_DIR=DIR           folder of nccl.h
#   -DAM_CUDA_INCLUDE_DIR=DIR           folder of the toolkit's cuda_runtime_api.h, cublas_v2.h, ...
#
# Building the plugin requires headers, libtorch and libcudart.so, but no nvcc, no GPU and no driver.
# scripts/setup --gpu installs the headers. The default set-up does not, because the headers of
# cuBLAS, cuSPARSE and cuSOLVER come in wheels of a gigabyte. The other CUDA libraries, on which
# libtorch_cuda.so depends, are needed only at run time.
#
# Sets AM_CUDA_MISSING (the reason why the plugin is not built; empty if it is built) and
# AM_NCCL_VERSION.

set(AM_WITH_CUDA AUTO CACHE STRING "Build the NCCL plugin: AUTO, ON or OFF")
set_property(CACHE AM_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)

# Searches first in the wheels that libtorch was installed with, because their headers match
# libtorch's CUDA version. A folder is used only if it has cublas_v2.h and two further headers that
# cublas_v2.h needs; the wheels on which libtorch itself depends may lack them.
set(_am_places "${AM_TORCH_DIR}/../nvidia/cu13" $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda /usr/local /usr)
list(TRANSFORM _am_places APPEND /include)
set(AM_CUDA_INCLUDE_DIR "" CACHE PATH "The CUDA toolkit's include folder; empty: looked for")
set(_am_cuda_include "${AM_CUDA_INCLUDE_DIR}")
foreach(_am_place IN LISTS _am_places)
  if(NOT _am_cuda_include AND EXISTS "${_am_place}/cublas_v2.h" AND EXISTS "${_am_place}/crt/host_config.h"
      AND EXISTS "${_am_place}/nv/target")
    get_filename_component(_am_cuda_include "${_am_place}" ABSOLUTE)
  endif()
endforeach()
find_path(AM_NCCL_INCLUDE_DIR nccl.h HINTS "${AM_TORCH_DIR}/../nvidia/nccl/include" ${_am_places})
mark_as_advanced(AM_CUDA_INCLUDE_DIR AM_NCCL_INCLUDE_DIR)

# The first reason why the plugin cannot be built; empty if the plugin can be built.
set(AM_CUDA_MISSING "")
macro(_am_cuda_needs what)
  if(NOT AM_CUDA_MISSING AND NOT (${ARGN}))
    set(AM_CUDA_MISSING "${what}")
  endif()
endmacro()

set(AM_NCCL_VERSION "")
if(AM_NCCL_INCLUDE_DIR)
  file(STRINGS "${AM_NCCL_INCLUDE_DIR}/nccl.h" _am_lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" AM_NCCL_VERSION "${_am_lines}")
  string(REPLACE ";" "." AM_NCCL_VERSION "${AM_NCCL_VERSION}")
endif()

if(AM_WITH_CUDA STREQUAL "OFF")
  set(AM_CUDA_MISSING "it was configured with AM_WITH_CUDA=OFF")
endif()
_am_cuda_needs("${AM_TORCH_DIR} is a libtorch without CUDA" EXISTS "${AM_TORCH_DIR}/lib/libtorch_cuda.so")
_am_cuda_needs("the CUDA toolkit's headers were not found" _am_cuda_include)
_am_cuda_needs("nvrtc.h was not found" EXISTS "${_am_cuda_include}/nvrtc.h")
_am_cuda_needs("nccl.h was not found" AM_NCCL_INCLUDE_DIR)
# The library of the CUDA runtime. The file in libtorch's wheels is preferred, because
# libtorch_cuda.so loads the same file.
file(GLOB _am_cudart "${AM_TORCH_DIR}/../nvidia/cu13/lib/libcudart.so.*" "${AM_TORCH_DIR}/lib/libcudart*.so.*")
list(APPEND _am_cudart "")
list(GET _am_cudart 0 _am_cudart)
if(NOT _am_cudart)
  find_library(AM_CUDART_LIBRARY cudart HINTS "${_am_cuda_include}/../lib64" "${_am_cuda_include}/../lib")
  mark_as_advanced(AM_CUDART_LIBRARY)
  set(_am_cudart "${AM_CUDART_LIBRARY}")
endif()
_am_cuda_needs("libcudart.so was not found" _am_cudart)

if(AM_CUDA_MISSING)
  if(AM_WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "AM_WITH_CUDA=ON: ${AM_CUDA_MISSING}. Install the CUDA toolkit and NCCL's header, or give\n"
      "-DAM_CUDA_INCLUDE_DIR=<folder of cublas_v2.h> -DAM_NCCL_INCLUDE_DIR=<folder of nccl.h>.")
  endif()
  message(STATUS "automesh: no NCCL plugin: ${AM_CUDA_MISSING}")
  return()
endif()
message(STATUS
  "automesh: NCCL plugin: NCCL ${AM_NCCL_VERSION} in ${AM_NCCL_INCLUDE_DIR}, CUDA headers in ${_am_cuda_include}")

# Writes a source file with the text of the kernels, and writes it again when a kernel changes.
file(GLOB AM_KERNEL_FILES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/lib/am/cuda/kernels/*.cu)
set(AM_KERNEL_FILES_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/kernel_files.cpp)
add_custom_command(OUTPUT ${AM_KERNEL_FILES_SOURCE}
  COMMAND ${CMAKE_COMMAND} -DOUT=${AM_KERNEL_FILES_SOURCE} -DKERNELS=${CMAKE_CURRENT_SOURCE_DIR}/lib/am/cuda/kernels
          -P ${CMAKE_CURRENT_LIST_DIR}/write_kernel_files.cmake
  DEPENDS ${AM_KERNEL_FILES} ${CMAKE_CURRENT_LIST_DIR}/write_kernel_files.cmake
          ${CMAKE_CURRENT_LIST_DIR}/embedded_literal.cmake
  VERBATIM)
add_library(am_kernel_text OBJECT lib/am/cuda/kernel_text.cpp ${AM_KERNEL_FILES_SOURCE})
target_include_directories(am_kernel_text PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/lib)
target_link_libraries(am_kernel_text PRIVATE am::compile_options)

am_glob(cuda_sources *.cpp ${CMAKE_CURRENT_SOURCE_DIR}/lib/am/cuda)
list(FILTER cuda_sources EXCLUDE REGEX "/kernel_text\\.cpp$")
add_library(automesh_cuda MODULE ${cuda_sources})
set_target_properties(automesh_cuda PROPERTIES UNITY_BUILD ${AM_UNITY})
target_include_directories(automesh_cuda SYSTEM PRIVATE ${_am_cuda_include} ${AM_NCCL_INCLUDE_DIR})
target_compile_definitions(automesh_cuda PRIVATE USE_C10D_NCCL)
target_link_libraries(automesh_cuda PRIVATE
  am_kernel_text automesh "${AM_TORCH_DIR}/lib/libtorch_cuda.so" "${AM_TORCH_DIR}/lib/libc10_cuda.so" "${_am_cudart}"
  am::compile_options)
# Undefined symbols of the plugin itself are link errors. Undefined symbols of its libraries are
# allowed, because this machine may lack the libraries that define them.
target_link_options(automesh_cuda PRIVATE LINKER:-z,defs LINKER:--allow-shlib-undefined)
