#include "am/cuda/compiled_kernels.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/cuda/kernel_launches.h"
#include "am/cuda/kernel_text.h"

namespace am::cuda {
namespace {

namespace fs = std::filesystem;

// ---- NVRTC

// Functions of NVRTC. The library is opened when nvrtc() is first called.
struct Nvrtc {
  decltype(&::nvrtcCreateProgram) create = nullptr;
  decltype(&::nvrtcCompileProgram) compile = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy = nullptr;
  decltype(&::nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) cubin = nullptr;
  decltype(&::nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) log = nullptr;
  decltype(&::nvrtcVersion) version = nullptr;
};

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw Error(ErrorKind::kRuntime, cat("libnvrtc.so lacks ", name));
}

// Returns NVRTC's functions. Opens libtorch's libcaffe2_nvrtc.so if possible, otherwise
// libnvrtc.so. The libnvrtc.so of PyTorch's wheel may be missing from the loader's search path, but
// libcaffe2_nvrtc.so is linked with that libnvrtc.so and loads it.
const Nvrtc& nvrtc() {
  static const Nvrtc functions = [] {
    void* library = nullptr;
    for (const std::string& file :
         {std::string("libcaffe2_nvrtc.so"), cat("libnvrtc.so.", CUDART_VERSION / 1000)}) {
      if (library == nullptr) library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) throw Error(ErrorKind::kRuntime, "libnvrtc.so was not found");
    Nvrtc all;
    find(library, "nvrtcCreateProgram", all.create);
    find(library, "nvrtcCompileProgram", all.compile);
    find(library, "nvrtcDestroyProgram", all.destroy);
    find(library, "nvrtcGetCUBINSize", all.cubin_size);
    find(library, "nvrtcGetCUBIN", all.cubin);
    find(library, "nvrtcGetProgramLogSize", all.log_size);
    find(library, "nvrtcGetProgramLog", all.log);
    find(library, "nvrtcVersion", all.version);
    return all;
  }();
  return functions;
}

// Input of NVRTC. key() returns a hash of everything that determines the compiled code: the text,
// the options and NVRTC's version.
struct Source {
  std::string text;
  std::vector<std::string> options;

  std::string key() const {
    int major = 0, minor = 0;
    nvrtc().version(&major, &minor);
    std::string all = cat(text, '\0', major, '.', minor);
    for (const std::string& option : options) all += cat('\0', option);
    return hash_text(hash_name(all)) + hash_text(finalized(hash_name(cat(all, '\1'))));
  }
};

std::string compiled(const Source& source) {
  const Nvrtc& api = nvrtc();
  nvrtcProgram program = nullptr;
  if (api.create(&program, source.text.c_str(), "automesh.cu", 0, nullptr, nullptr) !=
      NVRTC_SUCCESS) {
    throw Error(ErrorKind::kRuntime, "NVRTC cannot create a program");
  }
  const std::unique_ptr<nvrtcProgram, std::function<void(nvrtcProgram*)>> owner(
      &program, [&](nvrtcProgram* one) { api.destroy(one); });
  std::vector<const char*> options;
  for (const std::string& option : source.options) options.push_back(option.c_str());
  size_t size = 0;
  if (api.compile(program, static_cast<int>(options.size()), options.data()) != NVRTC_SUCCESS) {
    api.log_size(program, &size);
    std::string log(size, ' ');
    api.log(program, log.data());
    throw Error(ErrorKind::kRuntime, cat("NVRTC: ", log));
  }
  api.cubin_size(program, &size);
  std::string code(size, ' ');
  api.cubin(program, code.data());
  return code;
}

fs::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return fs::path(cache) / "automesh" / "kernels";
  if (home != nullptr && *home == '/') return fs::path(home) / ".cache" / "automesh" / "kernels";
  return {};
}

// Returns the compiled code, from the cache if possible. Ignores errors in reading and writing the
// cache.
std::string code_of(const Source& source) {
  const fs::path folder = cache_folder();
  const fs::path file = folder.empty() ? fs::path() : folder / cat(source.key(), ".cubin");
  std::error_code ignored;
  if (!file.empty() && fs::is_regular_file(file, ignored)) {
    try {
      return read_file(file);
    } catch (const Error&) {
      // The cached file is unreadable, so the source is compiled again.
    }
  }
  std::string code = compiled(source);
  if (!file.empty()) {
    try {
      fs::create_directories(folder, ignored);
      write_file_atomically(file, code);
    } catch (const Error&) {
      // The cache's folder may be read-only. The next process then compiles the source again.
    }
  }
  return code;
}

// ---- modules

Source source_of(Part part, at::ScalarType dtype, c10::DeviceIndex device) {
  int major = 0, minor = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return {text_of(part), compile_options(part, cat(major, minor), dtype == at::kBFloat16)};
}

using Key = std::tuple<c10::DeviceIndex, Part, at::ScalarType>;

// The compiled programs (Part) of this process, one module for each GPU, program and dtype. Other
// threads compile the code; kernel() loads it.
class Modules {
 public:
  static Modules& of_process() {
    static auto* const all = new Modules;  // never freed: kernels may be launched until exit
    return *all;
  }

  void start(const Key& key) {
    const std::lock_guard lock(mutex_);
    begin(key);
  }

  void wait() {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, module] : modules_) {
      if (module.code.valid()) module.code.wait();
    }
  }

  // Returns the kernel `name`, and waits if its module is still being compiled. Returns null if the
  // module cannot be compiled or loaded on this machine.
  const void* kernel(const Key& key, const char* name) {
    const std::lock_guard lock(mutex_);
    Module& module = modules_[key];
    if (module.failed) return nullptr;
    try {
      if (module.library == nullptr) {
        begin(key);
        const std::string code = module.code.get();
        C10_CUDA_CHECK(cudaLibraryLoadData(&module.library, code.data(), nullptr, nullptr, 0,
                                           nullptr, nullptr, 0));
      }
      cudaKernel_t& found = module.kernels[name];
      if (found == nullptr) C10_CUDA_CHECK(cudaLibraryGetKernel(&found, module.library, name));
      return reinterpret_cast<const void*>(found);
    } catch (const std::exception& error) {
      module.failed = true;
      TORCH_WARN("GPU kernels cannot be compiled or loaded; ATen's operators run instead: ",
                 error.what());
      return nullptr;
    }
  }

 private:
  struct Module {
    std::future<std::string> code;
    cudaLibrary_t library = nullptr;
    std::map<std::string, cudaKernel_t> kernels;
    bool failed = false;
  };

  void begin(const Key& key) {
    Module& module = modules_[key];
    if (module.library != nullptr || module.failed || module.code.valid()) return;
    module.code = std::async(std::launch::async, [key] {
      const auto [device, part, dtype] = key;
      return code_of(source_of(part, dtype, device));
    });
  }

  std::mutex mutex_;
  std::map<Key, Module> modules_;
};

// ---- launches

// Launches a kernel on the current stream of `on`'s device. Returns false if the kernel is not
// available.
bool launch(Part part, const at::Tensor& on, const char* name, const Grid& grid, void** arguments) {
  const c10::cuda::CUDAGuard guard(on.device());
  const void* kernel =
      Modules::of_process().kernel({on.device().index(), part, on.scalar_type()}, name);
  if (kernel == nullptr) return false;
  if (grid.blocks == 0) return true;
  C10_CUDA_CHECK(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(grid.blocks)),
                                  dim3(static_cast<unsigned>(grid.threads)), arguments, 0,
                                  c10::cuda::getCurrentCUDAStream().stream()));
  return true;
}

}  // namespace

const tensor::GpuKernels& compiled_kernels() { return kernels_by(launch); }

void start_compiling(c10::Device device) {
  try {
    nvrtc();
  } catch (const Error&) {
    return;  // the first use of a kernel warns of the error
  }
  // At exit, waits for the compilations, because they must end before NVRTC's static destructors
  // run. Exit handlers run in reverse order of registration. This handler is registered after NVRTC
  // was loaded, so it runs before NVRTC's destructors.
  std::atexit([] { Modules::of_process().wait(); });
  for (const Part part : kParts) {
    Modules::of_process().start({device.index(), part, at::kBFloat16});
    Modules::of_process().start({device.index(), part, at::kFloat});
  }
}

}  // namespace am::cuda
