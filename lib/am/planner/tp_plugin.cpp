#include "am/planner/tp_plugin.h"

#include <dlfcn.h>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::planner {

std::string call_tp_plugin(const std::filesystem::path& library, const std::string& symbol) {
  void* handle = dlopen(std::filesystem::absolute(library).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw Error(ErrorKind::kIo, cat(library.string(), ": cannot load this plugin: ",
                                    reason != nullptr ? reason : "unknown reason"));
  }
  void* address = symbol.empty() ? nullptr : dlsym(handle, symbol.c_str());
  if (address == nullptr) {
    throw Error(ErrorKind::kIo,
                cat(library.string(), ": this plugin has no function \"", symbol, "\""),
                "declare it extern \"C\" and export it");
  }
  using PlanFunction = const char* (*)();
  const char* text = reinterpret_cast<PlanFunction>(address)();
  if (text == nullptr) {
    throw Error(ErrorKind::kIo, cat(library.string(), ": ", symbol, "() returned no plan"));
  }
  return text;
}

}  // namespace am::planner
