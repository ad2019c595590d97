// Tensor-parallel plans from a shared library: "libmine.so:symbol" in a plan. tp_plan_abi.h
// describes what the library must export.
#pragma once

#include <filesystem>
#include <string>

namespace am::layout {

// Loads the library, calls its function `symbol` and returns the text that the function returns.
// Throws Error(kIo) if the library or the function is missing, or if the function returns null. The
// library stays loaded.
std::string call_tp_plugin(const std::filesystem::path& library, const std::string& symbol);

}  // namespace am::layout
