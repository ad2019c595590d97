# libautomesh_cuda.so: NCCL's engine (lib/am/cuda), a plugin that libautomesh loads when a plan asks for a GPU.
#
#   -DAM_WITH_CUDA=AUTO                 built where everything that it needs is found; one status line says so
#   -DAM_WITH_CUDA=ON|OFF               what is missing is an error; never built
#   -DAM_NCCL_INCLUDE_DIR=DIR           the folder of nccl.h
#   -DAM_CUDA_INCLUDE_DIR=DIR           the folder of the toolkit's cuda_runtime_api.h, cublas_v2.h, ...
#
# It needs headers and libtorch only: no nvcc, no GPU, no driver. scripts/setup --gpu brings them; the default set-up does
# not, because cuBLAS's, cuSPARSE's and cuSOLVER's headers come in wheels of a gigabyte. The CUDA libraries are needed by
# libtorch_cuda.so alone and looked for when the plugin is loaded.
# Sets AM_CUDA_MISSING (empty: it is built) and AM_NCCL_VERSION.

set(AM_WITH_CUDA AUTO CACHE STRING "Build the NCCL plugin: AUTO, ON or OFF")
set_property(CACHE AM_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)

# The wheels that libtorch was installed with first: their headers are of its own versions. They count only where all that
# cublas_v2.h includes is there, which is more than libtorch's wheel depends on.
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

# The first reason why the plugin cannot be built.
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
_am_cuda_needs("nccl.h was not found" AM_NCCL_INCLUDE_DIR)

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

am_glob(cuda_sources *.cpp ${CMAKE_CURRENT_SOURCE_DIR}/lib/am/cuda)
add_library(automesh_cuda MODULE ${cuda_sources})
set_target_properties(automesh_cuda PROPERTIES UNITY_BUILD ${AM_UNITY})
target_include_directories(automesh_cuda SYSTEM PRIVATE ${_am_cuda_include} ${AM_NCCL_INCLUDE_DIR})
target_compile_definitions(automesh_cuda PRIVATE USE_C10D_NCCL)
target_link_libraries(automesh_cuda PRIVATE
  automesh "${AM_TORCH_DIR}/lib/libtorch_cuda.so" "${AM_TORCH_DIR}/lib/libc10_cuda.so"
  am::compile_options)
# Our own undefined symbols are errors of the build; those of libraries that this machine lacks are not.
target_link_options(automesh_cuda PRIVATE LINKER:-z,defs LINKER:--allow-shlib-undefined)
