// Loads shared libraries at run time, and parses "libmine.so:symbol", a plan's notation for a
// function in one.
//
//   if (const auto plugin = parse_plugin_name("libmine.so:my_plan")) {
//     void* function = load_symbol(plan.resolve(plugin->library), plugin->symbol);
//   }
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace am {

struct OpenedLibrary {
  void* handle = nullptr;  // null: it could not be opened
  std::string problem;     // reason, from the dynamic linker
};

// A name without a folder is searched like the dynamic linker does. `global`: libraries loaded
// later may use its symbols. A library stays loaded until the process ends.
OpenedLibrary open_library(const std::string& file, bool global = false);
// Returns null if the library has no such symbol.
void* find_symbol(const OpenedLibrary& library, const std::string& symbol);

struct PluginName {
  std::string library;  // "libmine.so", with its folder if given
  std::string symbol;
};
// Returns nothing if the text has no ".so:".
std::optional<PluginName> parse_plugin_name(std::string_view text);

// Returns the function or object `symbol` of a plugin; relative paths are resolved against the
// working folder. Throws Error(kIo) if the library cannot be loaded or has no such symbol.
void* load_symbol(const std::filesystem::path& library, const std::string& symbol);

}  // namespace am
