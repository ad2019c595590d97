// The libtorch that is loaded, which need not be the one that we were compiled against: a library
// path or a virtual environment may bring another, whose classes are laid out otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace am::runtime {

// "2.11.0", of AM_TORCH_VERSION.
std::string compiled_torch_version();
// Nothing where it is too old to say. Asks nothing of ATen: see Note [Load CUDA first] in
// engine_plugin.h.
std::optional<std::string> loaded_torch_version();

// Throws Error(kRuntime) with both versions and the loaded file where they differ, before anything
// of libtorch is used.
void require_compiled_torch();

// One line or two for --version: "libtorch 2.11.0", and the other one where they differ.
std::string torch_version_text();

// Of what libtorch's aoti_torch_abi_version() gives: a byte each of major, minor and patch from the
// top.
std::string torch_version_of_abi(uint64_t abi);

}  // namespace am::runtime
