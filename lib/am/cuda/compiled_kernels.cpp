#include "am/cuda/compiled_kernels.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include <array>
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
#include "am/cuda/kernel_text.h"

namespace am::cuda {
namespace {

namespace fs = std::filesystem;

// ---- NVRTC

// Functions of libnvrtc.so, which is opened at the first use.
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

// Returns NVRTC's functions. Opens libtorch's libcaffe2_nvrtc.so first, because it is linked with
// the NVRTC of PyTorch's wheel, which may be missing from the linker's search path.
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

// Input of NVRTC. Text, options and NVRTC's version determine the compiled code, so key() hashes
// all three.
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
    throw Error(ErrorKind::kRuntime, "NVRTC cannot start");
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

// Returns the compiled code, from the cache if possible. Errors of the cache are ignored.
std::string code_of(const Source& source) {
  const fs::path folder = cache_folder();
  const fs::path file = folder.empty() ? fs::path() : folder / cat(source.key(), ".cubin");
  std::error_code ignored;
  if (!file.empty() && fs::is_regular_file(file, ignored)) {
    try {
      return read_file(file);
    } catch (const Error&) {
      // The cached file is unreadable: compiles again.
    }
  }
  std::string code = compiled(source);
  if (!file.empty()) {
    try {
      fs::create_directories(folder, ignored);
      write_file_atomically(file, code);
    } catch (const Error&) {
      // The home folder may be read-only; the next process then compiles again.
    }
  }
  return code;
}

// ---- modules

enum class Part { kOperators, kDraw };

Source source_of(Part part, at::ScalarType dtype, c10::DeviceIndex device) {
  int major = 0, minor = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  Source source = {part == Part::kDraw ? draw_text() : operator_text(),
                   compile_options(major * 10 + minor, dtype == at::kBFloat16)};
  if (part == Part::kDraw) source.options.emplace_back(kUncontracted);
  return source;
}

using Key = std::tuple<c10::DeviceIndex, Part, at::ScalarType>;

// The process's GPU modules: code that other threads compile, and the kernels loaded from it.
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

  // Returns a kernel; null if its module cannot be compiled or loaded on this machine.
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
      TORCH_WARN("kernels cannot be compiled, ATen's operators run instead: ", error.what());
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

struct Grid {
  int64_t blocks = 0;
  int threads = 256;
};

// Launches a kernel on the current stream. Returns false if the kernel is not available or the grid
// is too large.
template <typename... Arguments>
bool launch(Part part, const at::Tensor& on, const char* name, const Grid& grid,
            Arguments... arguments) {
  constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
  if (grid.blocks > kMostBlocks) return false;
  const c10::cuda::CUDAGuard guard(on.device());
  const void* kernel =
      Modules::of_process().kernel({on.device().index(), part, on.scalar_type()}, name);
  if (kernel == nullptr) return false;
  if (grid.blocks == 0) return true;
  std::array<void*, sizeof...(Arguments)> pointers = {&arguments...};
  C10_CUDA_CHECK(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(grid.blocks)),
                                  dim3(static_cast<unsigned>(grid.threads)), pointers.data(), 0,
                                  c10::cuda::getCurrentCUDAStream().stream()));
  return true;
}

constexpr int64_t kPackBytes = 16;

bool aligned(const at::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kPackBytes == 0;
}

template <typename... Tensors>
bool dense_packs(const Tensors&... all) {
  return ((all.is_contiguous() && aligned(all)) && ...);
}

// Returns a grid with one thread for each pack of 16 bytes.
Grid packs_of(const at::Tensor& x) {
  const int64_t lanes = kPackBytes / x.element_size();
  const int64_t packs = (x.numel() + lanes - 1) / lanes;
  constexpr int kThreads = 256;
  return {.blocks = (packs + kThreads - 1) / kThreads, .threads = kThreads};
}

constexpr int kRowThreads = 512;

bool logit_sums(const at::Tensor& maximum_N, const at::Tensor& exponentials_N,
                const at::Tensor& label_N, const at::Tensor& logits_Nv, const at::Tensor& labels_N,
                int64_t first) {
  return launch(Part::kOperators, logits_Nv, "logit_sums", {logits_Nv.size(0), kRowThreads},
                maximum_N.mutable_data_ptr<float>(), exponentials_N.mutable_data_ptr<float>(),
                label_N.mutable_data_ptr<float>(), logits_Nv.const_data_ptr(),
                labels_N.const_data_ptr<int64_t>(), logits_Nv.size(1), first);
}

bool cross_entropy_gradient(const at::Tensor& out_Nv, const at::Tensor& logits_Nv,
                            const at::Tensor& sums_N, const at::Tensor& labels_N, int64_t first,
                            int64_t ignored, const at::Tensor& scale) {
  return launch(Part::kOperators, logits_Nv, "cross_entropy_gradient",
                {logits_Nv.size(0), kRowThreads}, out_Nv.mutable_data_ptr(),
                logits_Nv.const_data_ptr(), sums_N.const_data_ptr<float>(),
                labels_N.const_data_ptr<int64_t>(), scale.const_data_ptr<float>(),
                logits_Nv.size(1), first, ignored);
}

// Returns the kernel's name; null for an activation without a kernel.
const char* name_of(model::Activation activation, bool backward) {
  switch (activation) {
    case model::Activation::kSilu:
      return backward ? "gated_gradients_silu" : "gated_silu";
    case model::Activation::kGeluTanh:
      return backward ? "gated_gradients_gelu_tanh" : "gated_gelu_tanh";
    case model::Activation::kGeluErf:
      return backward ? "gated_gradients_gelu_erf" : "gated_gelu_erf";
    case model::Activation::kClampedSilu:
    case model::Activation::kOther:
      break;
  }
  return nullptr;
}

bool gated(const at::Tensor& y, const at::Tensor& gate, const at::Tensor& up,
           model::Activation activation) {
  const char* name = name_of(activation, /*backward=*/false);
  return name != nullptr && dense_packs(y, gate, up) &&
         launch(Part::kOperators, y, name, packs_of(y), y.mutable_data_ptr(), gate.const_data_ptr(),
                up.const_data_ptr(), y.numel());
}

bool gated_gradients(const at::Tensor& of_gate, const at::Tensor& of_up, const at::Tensor& gradient,
                     const at::Tensor& gate, const at::Tensor& up, model::Activation activation) {
  const char* name = name_of(activation, /*backward=*/true);
  return name != nullptr && dense_packs(of_gate, of_up, gradient, gate, up) &&
         launch(Part::kOperators, gate, name, packs_of(gate), of_gate.mutable_data_ptr(),
                of_up.mutable_data_ptr(), gradient.const_data_ptr(), gate.const_data_ptr(),
                up.const_data_ptr(), gate.numel());
}

bool rotate(const at::Tensor& y_BTHK, const at::Tensor& x_BHTK, const at::Tensor& cos,
            const at::Tensor& sin, bool back) {
  const int64_t lanes = kPackBytes / x_BHTK.element_size();
  const int64_t width = x_BHTK.size(3), turned = cos.size(-1);
  bool whole = turned / 2 % lanes == 0 && width % lanes == 0 && x_BHTK.stride(3) == 1;
  for (int64_t dim = 0; dim < 3; ++dim) whole = whole && x_BHTK.stride(dim) % lanes == 0;
  if (!whole || !aligned(x_BHTK) || !dense_packs(y_BTHK, cos, sin)) return false;
  const int64_t batch = x_BHTK.size(0), heads = x_BHTK.size(1), length = x_BHTK.size(2);
  return launch(Part::kOperators, y_BTHK, "rotate", {batch * length, 128},
                y_BTHK.mutable_data_ptr(), x_BHTK.const_data_ptr(), cos.const_data_ptr(),
                sin.const_data_ptr(), length, heads, width, turned, x_BHTK.stride(0),
                x_BHTK.stride(2), x_BHTK.stride(1), cos.dim() == 3 ? 1 : 0, back ? -1.0F : 1.0F);
}

// A box of four dims, with the memory layout of the draw kernel's type `Box`.
struct BoxOfFour {
  std::array<int64_t, 4> shape, offset, stride;
};

bool draw(const at::Tensor& out, const Shape& whole, const mesh::Box& box,
          const tensor::Draws& draws) {
  BoxOfFour four = {{1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  if (whole.size() > four.shape.size() || !out.is_contiguous()) return false;
  int64_t stride = 1;
  for (size_t i = 0; i < whole.size(); ++i) {
    const size_t dim = whole.size() - 1 - i, to = four.shape.size() - 1 - i;
    four.shape[to] = box.shape[dim];
    four.offset[to] = box.offset[dim];
    four.stride[to] = stride;
    stride *= whole[dim];
  }
  constexpr int kThreads = 256;
  return launch(Part::kDraw, out, "draw", {(out.numel() + kThreads - 1) / kThreads, kThreads},
                out.mutable_data_ptr(), four, out.numel(), draws.key, draws.stream,
                draws.normal ? 1 : 0, draws.scale);
}

}  // namespace

const tensor::GpuKernels& compiled_kernels() {
  static constexpr tensor::GpuKernels kAll = {
      .logit_sums = logit_sums,
      .cross_entropy_gradient = cross_entropy_gradient,
      .gated = gated,
      .gated_gradients = gated_gradients,
      .rotate = rotate,
      .draw = draw,
  };
  return kAll;
}

void start_compiling(c10::Device device) {
  try {
    nvrtc();
  } catch (const Error&) {
    return;  // the first use of a kernel reports the error
  }
  // Waits for the compilations at exit, because they must end before NVRTC's static destructors
  // run. Exit handlers run in reverse order of registration, so this one runs before NVRTC's.
  std::atexit([] { Modules::of_process().wait(); });
  for (const Part part : {Part::kOperators, Part::kDraw}) {
    Modules::of_process().start({device.index(), part, at::kBFloat16});
    Modules::of_process().start({device.index(), part, at::kFloat});
  }
}

}  // namespace am::cuda
