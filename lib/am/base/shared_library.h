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
// searched for in the dynamic linker's folders. If `global`, libraries that are loaded later may
// use this library's symbols.
OpenedLibrary open_library(const std::string& file, bool global = false);
// Returns the address of a symbol, or null if the library does not define the symbol.
void* find_symbol(const OpenedLibrary& library, const std::string& symbol);

struct PluginName {
  std::string library;  // file, for example "libmine.so", with its folder if the text contains one
  std::string symbol;
};
// Splits a text such as "libmine.so:symbol". Returns nothing if the text has no ".so:".
std::optional<PluginName> parse_plugin_name(std::string_view text);

// Loads a plugin and returns the address of its function or object `symbol`. A relative path is
// resolved against the working folder. Throws Error(kIo) if the library cannot be loaded or does
// not define the symbol.
void* load_symbol(const std::filesystem::path& library, const std::string& symbol);

}  // namespace am
