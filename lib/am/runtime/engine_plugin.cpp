#include "am/runtime/engine_plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <string_view>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::runtime {

namespace {

// The folder of the library or program that holds this code.
std::filesystem::path own_folder() {
  Dl_info info;
  if (::dladdr(reinterpret_cast<const void*>(&load_cuda_plugin), &info) == 0) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

const CudaPlugin* load() {
  const std::filesystem::path beside = own_folder() / kCudaPluginFile;
  const bool is_beside = std::filesystem::exists(beside);
  const std::string file = is_beside ? beside.string() : kCudaPluginFile;
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw Error(ErrorKind::kRuntime,
                is_beside ? cat("the CUDA plugin cannot be loaded: ", ::dlerror())
                          : cat("this build of automesh has no CUDA plugin (", kCudaPluginFile,
                                "): it was made without the CUDA toolkit"));
  }
  void* symbol = ::dlsym(library, kCudaPluginSymbol);
  if (symbol == nullptr) {
    throw Error(ErrorKind::kRuntime, cat(file, " has no symbol ", kCudaPluginSymbol));
  }
  const CudaPlugin* plugin = reinterpret_cast<const CudaPlugin* (*)()>(symbol)();
  if (std::string_view(plugin->version) != AM_VERSION) {
    throw Error(ErrorKind::kRuntime,
                cat(file, " is of automesh ", plugin->version, ", this is automesh ", AM_VERSION));
  }
  return plugin;
}

}  // namespace

const CudaPlugin& load_cuda_plugin() {
  static const CudaPlugin* const plugin = load();
  return *plugin;
}

}  // namespace am::runtime
