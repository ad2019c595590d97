# Sets the project's compile options: C++20, warnings (errors with AM_WERROR), and ccache and mold if
# they are installed. Targets get the warnings by linking am::compile_options privately, so users of
# the installed library do not get them.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo" FORCE)
endif()
# -O2 is the level of Linux distributions. -g is not set, because debug information for libtorch's
# templates would take most of the build time.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# -fPIC everywhere, executables included, so that libraries and programs can share one precompiled
# header.
add_compile_options(-fPIC)

# Failed assertions name sources relative to the checkout, so that programs do not depend on the
# checkout's location.
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)

add_library(am_compile_options INTERFACE)
add_library(am::compile_options ALIAS am_compile_options)
target_compile_options(am_compile_options INTERFACE
  -Wall -Wextra -Wpedantic
  -Wno-missing-field-initializers  # Span{.file = file}: fields that a designated initialiser omits have defaults
  -Wnon-virtual-dtor -Woverloaded-virtual -Wvla -Wcast-qual -Wzero-as-null-pointer-constant)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(am_compile_options INTERFACE
    -Wshadow=local -Wsuggest-override -Wduplicated-cond -Wduplicated-branches -Wlogical-op
    # g++ 12 reports false positives inside inlined std::string, std::vector and std::optional code
    # (GCC bugs 105329, 105562, 107852).
    -Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
    # Warns if g++ cannot use a precompiled header. Without the warning, the build would only be slow.
    -Winvalid-pch)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    # This warning has false positives for functions such as data::JsonField::value(): they are called
    # on a temporary object and return a reference to an object that outlives the temporary.
    target_compile_options(am_compile_options INTERFACE -Wno-dangling-reference)
  endif()
endif()
if(AM_WERROR)
  target_compile_options(am_compile_options INTERFACE -Werror)
endif()

if(AM_SANITIZE)
  if(AM_WITH_TORCH)
    message(FATAL_ERROR "AM_SANITIZE needs -DAM_WITH_TORCH=OFF: libtorch is not built with sanitizers")
  endif()
  add_compile_options(-fsanitize=${AM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${AM_SANITIZE})
endif()

find_program(AM_CCACHE ccache)
if(AM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # With this sloppiness, ccache also caches precompiled headers and the files that use one. Paths
  # below the source folder are hashed as relative paths, so that another clone finds the objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${AM_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
endif()

find_program(AM_MOLD mold)
if(AM_MOLD)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=mold AM_LINKS_WITH_MOLD)  # g++ before 12.1 does not know this flag
  if(AM_LINKS_WITH_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
