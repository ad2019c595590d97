// A tensor-parallel plan from a shared library: "libmine.so:symbol" in a plan. What such a library
// exports is in tp_plan_abi.h.
#pragma once

#include <filesystem>
#include <string>

namespace am::planner {

// The text that the function returns. Throws Error(kIo) when the library or the function is not
// there, or when it returns null. The library stays loaded.
std::string call_tp_plugin(const std::filesystem::path& library, const std::string& symbol);

}  // namespace am::planner
