// The text of the GPU kernels compiles for every architecture, without a GPU. Exit status 77 if
// this machine has no NVRTC.
#include <dlfcn.h>
#include <nvrtc.h>

#include <cstdio>
#include <string>
#include <vector>

#include "am/base/normal_math.h"
#include "am/base/text.h"
#include "am/cuda/kernel_text.h"

namespace {

constexpr int kSkipped = 77;

template <typename Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

// Returns NVRTC's messages; empty if the text compiles.
std::string problem_of(void* nvrtc, const std::string& text,
                       const std::vector<std::string>& options) {
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  nvrtcProgram program = nullptr;
  find<decltype(nvrtcCreateProgram)>(nvrtc, "nvrtcCreateProgram")(
      &program, text.c_str(), "kernels.cu", 0, nullptr, nullptr);
  const nvrtcResult result = find<decltype(nvrtcCompileProgram)>(nvrtc, "nvrtcCompileProgram")(
      program, static_cast<int>(words.size()), words.data());
  size_t size = 0;
  find<decltype(nvrtcGetProgramLogSize)>(nvrtc, "nvrtcGetProgramLogSize")(program, &size);
  std::string log(size, '\0');
  find<decltype(nvrtcGetProgramLog)>(nvrtc, "nvrtcGetProgramLog")(program, log.data());
  return result == NVRTC_SUCCESS ? "" : am::cat("status ", static_cast<int>(result), ": ", log);
}

}  // namespace

int main() {
  void* nvrtc = nullptr;
  for (const char* file : {"libnvrtc.so.13", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"}) {
    if (nvrtc == nullptr) nvrtc = ::dlopen(file, RTLD_NOW);
  }
  if (nvrtc == nullptr) {
    std::printf("skipped: libnvrtc.so was not found\n");
    return kSkipped;
  }
  int failed = 0;
  for (const int architecture : {80, 86, 89, 90, 100, 120}) {
    for (const int narrow : {0, 1}) {
      const std::vector<std::string> options = am::cuda::compile_options(architecture, narrow == 1);
      std::vector<std::string> exact = options;
      exact.emplace_back(am::cuda::kUncontracted);
      const std::string problems = problem_of(nvrtc, am::cuda::operator_text(), options) +
                                   problem_of(nvrtc, am::cuda::draw_text(), exact);
      std::printf("sm_%d %s: %s\n", architecture, narrow == 1 ? "bfloat16" : "float32",
                  problems.empty() ? "compiles" : problems.c_str());
      failed += problems.empty() ? 0 : 1;
    }
  }
  return failed > 0 ? 1 : 0;
}
