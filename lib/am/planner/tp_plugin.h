// A tensor-parallel plan from a shared library: "libmine.so:symbol" in a plan.
//
// The symbol is a C function without arguments that returns the plan as TOML text, so that a plugin
// needs none of our headers and no matching compiler:
//
//   extern "C" const char* my_plan() { return "\"model.layers.*.mlp.up_proj\" = \"colwise\"\n...";
//   }
#pragma once

#include <filesystem>
#include <string>

namespace am::planner {

// The text that the function returns. Throws Error(kIo) when the library or the function is not
// there, or when it returns null. The library stays loaded.
std::string call_tp_plugin(const std::filesystem::path& library, const std::string& symbol);

}  // namespace am::planner
