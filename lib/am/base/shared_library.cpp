#include "am/base/shared_library.h"

#include <dlfcn.h>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am {

OpenedLibrary open_library(const std::string& file, bool global) {
  OpenedLibrary library;
  library.handle = ::dlopen(file.c_str(), RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
  if (library.handle != nullptr) return library;
  const char* reason = ::dlerror();
  library.problem = reason != nullptr ? reason : "unknown reason";
  return library;
}

void* find_symbol(const OpenedLibrary& library, const std::string& symbol) {
  if (library.handle == nullptr || symbol.empty()) return nullptr;
  return ::dlsym(library.handle, symbol.c_str());
}

std::optional<PluginName> parse_plugin_name(std::string_view text) {
  constexpr std::string_view kMark = ".so:";
  const size_t mark = text.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  return PluginName{std::string(text.substr(0, mark + kMark.size() - 1)),
                    std::string(text.substr(mark + kMark.size()))};
}

void* load_symbol(const std::filesystem::path& library, const std::string& symbol) {
  const OpenedLibrary opened = open_library(std::filesystem::absolute(library).string());
  if (opened.handle == nullptr) {
    throw Error(ErrorKind::kIo,
                cat(library.string(), ": cannot load this plugin: ", opened.problem));
  }
  void* address = find_symbol(opened, symbol);
  if (address == nullptr) {
    throw Error(ErrorKind::kIo,
                cat(library.string(), ": this plugin has no function \"", symbol, "\""),
                "declare it extern \"C\" and export it");
  }
  return address;
}

}  // namespace am
