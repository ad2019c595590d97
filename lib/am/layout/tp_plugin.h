// Gets a tensor-parallel plan from a function of a shared library. The job's plan names the library
// and the function, as "libmine.so:symbol"; tp_plan_abi.h describes the function.
#pragma once

#include <filesystem>
#include <string>

namespace am::layout {

// Loads the library, calls its function `symbol` and returns the text that the function returns.
// Throws Error(kIo) if the library cannot be loaded, if it has no function `symbol`, or if the
// function returns null. The library stays loaded.
std::string call_tp_plugin(const std::filesystem::path& library, const std::string& symbol);

}  // namespace am::layout
