#include "am/runtime/torch_version.h"

#include <dlfcn.h>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::runtime {

namespace {

using AbiVersion = uint64_t();

// Returns libtorch's version function; null in older versions. The lookup is safe with any version,
// because the symbol has C linkage.
AbiVersion* abi_version() {
  return reinterpret_cast<AbiVersion*>(::dlsym(RTLD_DEFAULT, "aoti_torch_abi_version"));
}

// Returns the file of the loaded libtorch: the library that contains libtorch's version function
// or, if there is none, MKL's version function. Returns "libtorch_cpu.so" if neither is found.
std::string loaded_file() {
  void* symbol = ::dlsym(RTLD_DEFAULT, "aoti_torch_abi_version");
  if (symbol == nullptr) symbol = ::dlsym(RTLD_DEFAULT, "MKL_Get_Version_String");
  Dl_info info = {};
  if (symbol == nullptr || ::dladdr(symbol, &info) == 0) return "libtorch_cpu.so";
  return info.dli_fname;
}

}  // namespace

std::string compiled_torch_version() { return AM_TORCH_VERSION; }

std::string torch_version_of_abi(uint64_t abi) {
  return cat(abi >> 56 & 0xff, ".", abi >> 48 & 0xff, ".", abi >> 40 & 0xff);
}

std::optional<std::string> loaded_torch_version() {
  AbiVersion* const version = abi_version();
  if (version == nullptr) return std::nullopt;
  return torch_version_of_abi(version());
}

bool is_compatible_torch(std::string_view compiled, std::string_view loaded) {
  const auto minor = [](std::string_view version) { return version.substr(0, version.rfind('.')); };
  return minor(compiled) == minor(loaded);
}

void require_compiled_torch() {
  const auto loaded = loaded_torch_version();
  if (loaded && is_compatible_torch(compiled_torch_version(), *loaded)) return;
  throw Error(ErrorKind::kRuntime,
              cat("libtorch ", loaded.value_or("of an unknown, older version"), " is loaded (",
                  loaded_file(), "), but this program was built for ", compiled_torch_version()),
              cat("load libtorch ", compiled_torch_version(),
                  " (see LD_LIBRARY_PATH and the virtual environment), or build automesh for the "
                  "loaded one with scripts/setup --libtorch DIR"));
}

std::string torch_version_text() {
  const auto loaded = loaded_torch_version();
  if (loaded == compiled_torch_version()) return cat("libtorch ", *loaded, "\n");
  return cat("libtorch ", loaded.value_or("of an unknown, older version"), " (", loaded_file(),
             ")\nbuilt for libtorch ", compiled_torch_version(),
             "; accepts only releases that differ from it in the patch number\n");
}

}  // namespace am::runtime
