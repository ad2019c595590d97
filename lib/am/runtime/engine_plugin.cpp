#include "am/runtime/engine_plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <string_view>

#include "am/base/error.h"
#include "am/base/shared_library.h"
#include "am/base/text.h"
#include "am/launch/environment/nccl.h"

namespace am::runtime {

namespace {

using launch::kUseGloo;

// Reason why this build has no plugin; empty if it has a plugin.
constexpr std::string_view kNotBuilt = AM_CUDA_MISSING;

// Returns the path of the plugin beside the library or program that contains this code. Returns an
// empty path if there is no plugin.
std::filesystem::path plugin_beside_us() {
  Dl_info info;
  if (::dladdr(reinterpret_cast<const void*>(&load_cuda_plugin), &info) == 0) return {};
  auto file = std::filesystem::path(info.dli_fname).parent_path() / kCudaPluginFile;
  return std::filesystem::exists(file) ? file : std::filesystem::path();
}

// Loads libtorch's CUDA libraries from the folder of the loaded libtorch, so that the plugin needs
// no search path. Ignores errors, because the dynamic linker reports them when it loads the plugin.
void load_cuda_of_libtorch() {
  void* symbol = ::dlsym(RTLD_DEFAULT, "aoti_torch_abi_version");
  Dl_info info;
  if (symbol == nullptr || ::dladdr(symbol, &info) == 0) return;
  const std::filesystem::path folder = std::filesystem::path(info.dli_fname).parent_path();
  for (const char* name : {"libc10_cuda.so", "libtorch_cuda.so"}) {
    const std::filesystem::path file = folder / name;
    if (std::filesystem::exists(file)) open_library(file.string(), /*global=*/true);
  }
}

std::string no_plugin() {
  return cat("this automesh has no CUDA plugin (", kCudaPluginFile, ")",
             kNotBuilt.empty() ? "" : cat(": when it was built, ", kNotBuilt));
}

const CudaPlugin* load() {
  const std::filesystem::path beside = plugin_beside_us();
  const std::string file = beside.empty() ? kCudaPluginFile : beside.string();
  load_cuda_of_libtorch();
  const OpenedLibrary library = open_library(file, /*global=*/true);
  if (library.handle == nullptr) {
    if (beside.empty()) {
      throw Error(ErrorKind::kRuntime, no_plugin(),
                  cat("build it where the CUDA toolkit is, with a libtorch that has CUDA "
                      "(scripts/build -DAM_WITH_CUDA=ON), or ",
                      kUseGloo));
    }
    throw Error(ErrorKind::kRuntime, cat("the CUDA plugin cannot be loaded: ", library.problem),
                cat("scripts/setup --gpu installs libtorch with all CUDA libraries (or give your "
                    "own with --libtorch); or ",
                    kUseGloo));
  }
  void* symbol = find_symbol(library, kCudaPluginSymbol);
  if (symbol == nullptr) {
    throw Error(ErrorKind::kRuntime, cat(file, " has no symbol ", kCudaPluginSymbol));
  }
  const CudaPlugin* plugin = reinterpret_cast<const CudaPlugin* (*)()>(symbol)();
  if (std::string_view(plugin->version) != AM_VERSION) {
    throw Error(ErrorKind::kRuntime,
                cat(file, " was built for automesh ", plugin->version, ", but this is automesh ",
                    AM_VERSION),
                "install both from one build");
  }
  return plugin;
}

}  // namespace

const CudaPlugin& load_cuda_plugin() {
  static const CudaPlugin* const plugin = load();
  return *plugin;
}

std::string gpu_name(c10::Device device) {
  return device.is_cuda() ? load_cuda_plugin().gpu_name(device) : std::string();
}

std::optional<CudaProblem> why_no_cuda() {
  if (auto problem = launch::why_no_gpu()) return problem;
  try {
    load_cuda_plugin();
    return std::nullopt;
  } catch (const Error& error) {
    return CudaProblem{error.what(), error.hint().empty() ? kUseGloo : error.hint()};
  }
}

std::string default_backend() { return why_no_cuda() ? "gloo" : "nccl"; }

std::string nccl_version_text() {
  if (plugin_beside_us().empty()) return "nccl: no plugin";
  why_no_cuda();  // called for its side effect: it loads the plugin if there is a GPU
  const auto loaded = launch::loaded_nccl_version();
  const std::string text = loaded ? launch::nccl_version_name(*loaded) : AM_NCCL_VERSION;
  return cat("nccl ", text,
             text == AM_NCCL_VERSION ? " (plugin)" : " (plugin built with " AM_NCCL_VERSION ")");
}

}  // namespace am::runtime
