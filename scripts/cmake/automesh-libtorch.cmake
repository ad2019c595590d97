# Defines automesh::libtorch from the folder AM_TORCH_DIR: site-packages/torch of a PyPI wheel, or an
# unzipped libtorch.
#
# libtorch's TorchConfig.cmake is not used. In the CUDA wheel, TorchConfig.cmake requires a CUDA
# toolkit, but automesh links only libtorch_cpu and libc10. The build and the installed CMake package
# both include automesh-libtorch.cmake, which also sets AM_TORCH_VERSION and AM_TORCH_RPATH.

if(NOT EXISTS "${AM_TORCH_DIR}/lib/libtorch_cpu.so" OR NOT IS_DIRECTORY "${AM_TORCH_DIR}/include/ATen")
  message(FATAL_ERROR
    "No libtorch in AM_TORCH_DIR=${AM_TORCH_DIR}: it has no lib/libtorch_cpu.so or no include/ATen.\n"
    "Run scripts/setup, or give the folder of your own with -DAM_TORCH_DIR=<site-packages>/torch.\n"
    "Without libtorch, -DAM_WITH_TORCH=OFF builds am-plan alone.")
endif()

# The wheel has version.py, an unzipped libtorch has build-version; both contain a version such as
# 2.11.0+cu130.
set(AM_TORCH_VERSION "unknown")
if(EXISTS "${AM_TORCH_DIR}/version.py")
  file(STRINGS "${AM_TORCH_DIR}/version.py" _am_line REGEX "^__version__ *=" LIMIT_COUNT 1)
elseif(EXISTS "${AM_TORCH_DIR}/build-version")
  file(STRINGS "${AM_TORCH_DIR}/build-version" _am_line LIMIT_COUNT 1)
endif()
if(_am_line MATCHES "([0-9]+\\.[0-9]+\\.[0-9]+)")
  set(AM_TORCH_VERSION "${CMAKE_MATCH_1}")
endif()

# The CUDA wheel's libtorch_cpu.so is linked against libcudart and libcupti, which are in other
# wheels; a CPU-only libtorch_cpu.so is not. The RPATH of libtorch_cpu.so leads to these libraries if
# all wheels are installed in one folder. For other cases, AM_TORCH_RPATH also lists the folders of
# these libraries.
set(AM_TORCH_RPATH "${AM_TORCH_DIR}/lib")
file(GLOB _am_nvidia_dirs "${AM_TORCH_DIR}/../nvidia/*/lib")
foreach(_am_dir IN LISTS _am_nvidia_dirs)
  get_filename_component(_am_dir "${_am_dir}" ABSOLUTE)
  list(APPEND AM_TORCH_RPATH "${_am_dir}")
endforeach()

find_path(AM_GLOO_INCLUDE_DIR gloo/config.h HINTS "${AM_TORCH_DIR}/include")
if(NOT AM_GLOO_INCLUDE_DIR)
  message(FATAL_ERROR "gloo/config.h was not found. On Debian and Ubuntu: apt-get install libgloo-dev (or run scripts/setup).")
endif()
mark_as_advanced(AM_GLOO_INCLUDE_DIR)

if(NOT TARGET automesh::libtorch)
  add_library(automesh::libc10 SHARED IMPORTED)
  set_target_properties(automesh::libc10 PROPERTIES IMPORTED_LOCATION "${AM_TORCH_DIR}/lib/libc10.so")
  add_library(automesh::libtorch_cpu SHARED IMPORTED)
  set_target_properties(automesh::libtorch_cpu PROPERTIES IMPORTED_LOCATION "${AM_TORCH_DIR}/lib/libtorch_cpu.so")

  add_library(automesh::libtorch INTERFACE IMPORTED)
  target_link_libraries(automesh::libtorch INTERFACE automesh::libtorch_cpu automesh::libc10)
  target_include_directories(automesh::libtorch SYSTEM INTERFACE
    "${AM_TORCH_DIR}/include" "${AM_TORCH_DIR}/include/torch/csrc/api/include" "${AM_GLOO_INCLUDE_DIR}")
  # Enables c10d's ProcessGroupGloo. Gloo's headers are in AM_GLOO_INCLUDE_DIR, and Gloo's code is in
  # libtorch_cpu.so.
  target_compile_definitions(automesh::libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  foreach(_am_dir IN LISTS AM_TORCH_RPATH)
    target_link_options(automesh::libtorch INTERFACE "LINKER:-rpath-link,${_am_dir}")
  endforeach()
endif()
