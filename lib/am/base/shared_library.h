// Shared libraries that are opened while a program runs, and "libmine.so:symbol", the name that a
// plan gives to a function in one.
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
  std::string problem;     // then why, in the dynamic linker's words
};

// A name without a folder is looked for where the dynamic linker looks. `global`: later libraries
// may use its symbols. A library stays open as long as the process.
OpenedLibrary open_library(const std::string& file, bool global = false);
// Null when the library has no such symbol.
void* find_symbol(const OpenedLibrary& library, const std::string& symbol);

struct PluginName {
  std::string library;  // "libmine.so", with its folder if it was given
  std::string symbol;
};
// Nothing where the text has no ".so:".
std::optional<PluginName> parse_plugin_name(std::string_view text);

// The function or object `symbol` of a plugin; a relative path starts at the working folder.
// Throws Error(kIo) when the library cannot be loaded or has no such symbol.
void* load_symbol(const std::filesystem::path& library, const std::string& symbol);

}  // namespace am
