// The version of the loaded libtorch, which may differ from the version at compile time: a library
// path or a virtual environment may lead to another libtorch, with other class layouts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace am::runtime {

// Returns the version of libtorch at compile time, for example "2.11.0".
std::string compiled_torch_version();
// Returns the loaded libtorch's version; nothing if the library is too old to report a version.
// Does not query ATen: see Note [Load CUDA first] in engine_plugin.h.
std::optional<std::string> loaded_torch_version();

// Returns whether a program that was compiled for libtorch `compiled` can use libtorch `loaded`.
// Only releases that differ at most in the patch number have the same binary interface.
bool is_compatible_torch(std::string_view compiled, std::string_view loaded);
// Throws Error(kRuntime), with both versions and the loaded file, if the loaded libtorch is not
// compatible with the version at compile time. Must be called before any other use of libtorch.
void require_compiled_torch();

// Returns the text for --version, for example "libtorch 2.11.0\n". If the loaded version is not the
// version at compile time, the text has two lines: the loaded version and file, then the version at
// compile time.
std::string torch_version_text();

// Decodes the result of libtorch's aoti_torch_abi_version(): major, minor and patch, one byte each
// from the most significant.
std::string torch_version_of_abi(uint64_t abi);

}  // namespace am::runtime
