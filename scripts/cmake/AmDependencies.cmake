# Finds the project's dependencies. Each dependency is a separate target, so that the link libraries
# of a target show which dependencies it uses.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# am_header_library(<name> <header> <Debian package>): defines am::<name>, which adds the folder of
# <header> to the system include folders.
function(am_header_library name header package)
  find_path(AM_${name}_INCLUDE_DIR ${header})
  if(NOT AM_${name}_INCLUDE_DIR)
    message(FATAL_ERROR "${header} was not found. On Debian and Ubuntu: apt-get install ${package} (or run scripts/setup).")
  endif()
  mark_as_advanced(AM_${name}_INCLUDE_DIR)
  add_library(am_${name} INTERFACE)
  add_library(am::${name} ALIAS am_${name})
  target_include_directories(am_${name} SYSTEM INTERFACE ${AM_${name}_INCLUDE_DIR})
endfunction()

am_header_library(tomlplusplus toml++/toml.h libtomlplusplus-dev)
am_header_library(nlohmann_json nlohmann/json.hpp nlohmann-json3-dev)
am_header_library(cli11 CLI/CLI.hpp libcli11-dev)

# libyaml parses the YAML files of other frameworks. Only am/config/yaml_reader.cpp includes yaml.h.
am_header_library(yaml yaml.h libyaml-dev)
find_library(AM_YAML_LIBRARY yaml REQUIRED)
mark_as_advanced(AM_YAML_LIBRARY)
cmake_path(GET AM_YAML_LIBRARY PARENT_PATH AM_YAML_LIBRARY_DIR)  # an installed automesh searches this folder first
target_link_libraries(am_yaml INTERFACE ${AM_YAML_LIBRARY})

# libsodium authenticates connections over TCP. Only am/control/token.cpp includes sodium.h.
am_header_library(sodium sodium.h libsodium-dev)
find_library(AM_SODIUM_LIBRARY sodium REQUIRED)
mark_as_advanced(AM_SODIUM_LIBRARY)
cmake_path(GET AM_SODIUM_LIBRARY PARENT_PATH AM_SODIUM_LIBRARY_DIR)
target_link_libraries(am_sodium INTERFACE ${AM_SODIUM_LIBRARY})

# Tokenizers in the format tokenizer.json need PCRE2 for patterns with \p{L} and look-ahead, and
# utf8proc for normalization form C. am/data/ includes both libraries, am/chat/ includes utf8proc, and
# no other folder includes either of them.
find_package(PkgConfig REQUIRED)
pkg_check_modules(AM_UNICODE IMPORTED_TARGET libpcre2-8 libutf8proc)
if(NOT AM_UNICODE_FOUND)
  message(FATAL_ERROR "PCRE2 or utf8proc was not found. On Debian and Ubuntu: apt-get install libpcre2-dev libutf8proc-dev (or run scripts/setup).")
endif()
# The flag -DUTF8PROC_EXPORTS from utf8proc's package is removed. Targets with and without the flag
# could not share one precompiled header.
set_target_properties(PkgConfig::AM_UNICODE PROPERTIES INTERFACE_COMPILE_OPTIONS "")
add_library(am::unicode ALIAS PkgConfig::AM_UNICODE)

# zlib and Zstandard decompress data files. Only am/data/data_file.cpp and
# am/formats/parquet/codec.cpp include these libraries.
pkg_check_modules(AM_COMPRESSION IMPORTED_TARGET zlib libzstd)
if(NOT AM_COMPRESSION_FOUND)
  message(FATAL_ERROR "zlib or Zstandard was not found. On Debian and Ubuntu: apt-get install zlib1g-dev libzstd-dev (or run scripts/setup).")
endif()
add_library(am::compression ALIAS PkgConfig::AM_COMPRESSION)

if(AM_WITH_TORCH)
  include(automesh-libtorch)
  message(STATUS "automesh: libtorch ${AM_TORCH_VERSION} in ${AM_TORCH_DIR}")

  # Sets AM_INSTALL_TORCH_RPATH, the folders in which installed programs look for libtorch. By
  # default, a libtorch inside the checkout is installed too, because the checkout may be removed.
  cmake_path(IS_PREFIX CMAKE_SOURCE_DIR "${AM_TORCH_DIR}" NORMALIZE own_libtorch)
  option(AM_INSTALL_LIBTORCH "Install the libraries of libtorch that the tools load" ${own_libtorch})
  if(AM_INSTALL_LIBTORCH)
    set(AM_LIBTORCH_FOLDER ${CMAKE_INSTALL_LIBDIR}/automesh/libtorch)
    set(AM_INSTALL_TORCH_RPATH "\$ORIGIN/../${AM_LIBTORCH_FOLDER}")
  else()
    set(AM_INSTALL_TORCH_RPATH ${AM_TORCH_RPATH})
  endif()

  pkg_check_modules(libedit IMPORTED_TARGET libedit)
  if(NOT libedit_FOUND)
    message(FATAL_ERROR "libedit was not found. On Debian and Ubuntu: apt-get install libedit-dev (or run scripts/setup).")
  endif()
  add_library(am::libedit ALIAS PkgConfig::libedit)

endif()
