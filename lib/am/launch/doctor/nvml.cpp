#include "am/launch/doctor/nvml.h"

#include <dlfcn.h>

#include <array>
#include <memory>

#include "am/base/text.h"

// This file declares the types of NVML's C interface that it uses, from NVML's reference manual.
// NVML's functions return 0 on success. A device is an opaque pointer.

namespace am::launch {
namespace {

using Device = void*;

struct Memory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

class Nvml {
 public:
  explicit Nvml(const std::string& library)
      : handle_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) problem_ = cat("cannot load ", library, ": ", ::dlerror());
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    if (started_) call<>("nvmlShutdown");
    if (handle_ != nullptr) ::dlclose(handle_);
  }

  const std::string& problem() const { return problem_; }

  // Calls the NVML function `name` and returns whether the call succeeded. The first failed call
  // sets problem(). After a failed call, further calls do nothing and return false.
  template <typename... Args>
  bool call(const char* name, Args... args) {
    if (!problem_.empty()) return false;
    auto* function = reinterpret_cast<int (*)(Args...)>(::dlsym(handle_, name));
    const int status = function != nullptr ? function(args...) : -1;
    if (status == 0) return true;
    problem_ = function == nullptr ? cat("the driver's library has no ", name)
                                   : cat(name, ": ", error_text(status));
    return false;
  }

  void start() { started_ = call<>("nvmlInit_v2"); }

 private:
  std::string error_text(int status) const {
    auto* text = reinterpret_cast<const char* (*)(int)>(::dlsym(handle_, "nvmlErrorString"));
    return text != nullptr ? text(status) : cat("error ", status);
  }

  void* handle_ = nullptr;
  bool started_ = false;
  std::string problem_;
};

Gpu ask_gpu(Nvml& nvml, unsigned index) {
  Gpu gpu;
  Device device = nullptr;
  std::array<char, 96> name = {};
  Memory memory;
  int minor = 0;
  if (!nvml.call("nvmlDeviceGetHandleByIndex_v2", index, &device)) return gpu;
  if (nvml.call("nvmlDeviceGetName", device, name.data(), static_cast<unsigned>(name.size()))) {
    gpu.name = name.data();
  }
  if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory)) {
    gpu.memory_bytes = static_cast<int64_t>(memory.total);
    gpu.free_bytes = static_cast<int64_t>(memory.free);
  }
  nvml.call("nvmlDeviceGetCudaComputeCapability", device, &gpu.compute_major, &minor);
  return gpu;
}

}  // namespace

GpuReport ask_nvml(const std::string& library) {
  GpuReport report;
  Nvml nvml(library);
  nvml.start();
  std::array<char, 96> version = {};
  if (nvml.call("nvmlSystemGetDriverVersion", version.data(),
                static_cast<unsigned>(version.size()))) {
    report.driver_version = version.data();
  }
  unsigned count = 0;
  nvml.call("nvmlDeviceGetCount_v2", &count);
  for (unsigned i = 0; i < count; ++i) report.gpus.push_back(ask_gpu(nvml, i));
  report.problem = nvml.problem();
  return report;
}

}  // namespace am::launch
