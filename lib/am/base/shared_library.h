// Loads shared libraries at run time. Parses texts such as "libmine.so:symbol", by which a plan
// names a function of a shared library.
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
  void* handle = nullptr;  // null: the library could not be opened
  std::string problem;     // why the library could not be opened, from the dynamic linker
};

// Opens a shared library, which stays loaded until the process ends. A name without a folder is
// searched for in the dynamic linker's folders. If `global`, libraries loaded later may use its
// symbols.
OpenedLibrary open_library(const std::string& file, bool global = false);
// Returns the address of a symbol, or null if the library does not have it.
void* find_symbol(const OpenedLibrary& library, const std::string& symbol);

struct PluginName {
  std::string library;  // file, for example "libmine.so", with its folder if the plan has one
  std::string symbol;
};
// Splits a text such as "libmine.so:symbol". Returns nothing if the text has no ".so:".
std::optional<PluginName> parse_plugin_name(std::string_view text);

// Returns the function or object `symbol` of a plugin; relative paths are resolved against the
// working folder. Throws Error(kIo) if the library cannot be loaded or has no such symbol.
void* load_symbol(const std::filesystem::path& library, const std::string& symbol);

}  // namespace am
