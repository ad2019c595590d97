// Compiles the text of the GPU kernels for the architectures in main(), without a GPU. Checks that
// no kernel uses more registers than the table kMost allows, and that none spills registers to
// memory. Exits with status 77 if this machine has no NVRTC.
#include <dlfcn.h>
#include <elf.h>
#include <nvrtc.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/text.h"
#include "am/cuda/kernel_text.h"

namespace {

constexpr int kSkipped = 77;

// The largest number of registers per thread that each kernel may use, on any architecture that
// main() compiles for. With 40 registers, six blocks of 256 threads fit on a multiprocessor.
const std::map<std::string, unsigned> kMost = {
    {"logit_sums", 40},
    {"cross_entropy_gradient", 40},
    {"gated_silu", 32},
    {"gated_gelu_tanh", 32},
    {"gated_gelu_erf", 40},
    {"gated_gradients_silu", 40},
    {"gated_gradients_gelu_tanh", 40},
    {"gated_gradients_gelu_erf", 40},
    {"rms_norm", 48},
    {"rms_norm_by_one", 40},
    {"rms_norm_gradients", 96},  // the hardware allows 128 with blocks of 512 threads
    {"rms_norm_gradients_by_one", 48},
    {"rms_norm_weight_gradient", 32},
    {"rotate", 48},
    {"drop", 40},
    {"sum_of_rows", 40},
    {"sum_of_rows_by_one", 40},
    {"draw", 32},
};

template <typename Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

struct Compiled {
  std::string code;
  std::string problem;  // NVRTC's messages; empty if the text compiles
};

Compiled compiled(void* nvrtc, const std::string& text, const std::vector<std::string>& options) {
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  nvrtcProgram program = nullptr;
  find<decltype(nvrtcCreateProgram)>(nvrtc, "nvrtcCreateProgram")(
      &program, text.c_str(), "kernels.cu", 0, nullptr, nullptr);
  const nvrtcResult result = find<decltype(nvrtcCompileProgram)>(nvrtc, "nvrtcCompileProgram")(
      program, static_cast<int>(words.size()), words.data());
  Compiled made;
  size_t size = 0;
  if (result == NVRTC_SUCCESS) {
    find<decltype(nvrtcGetCUBINSize)>(nvrtc, "nvrtcGetCUBINSize")(program, &size);
    made.code.resize(size);
    find<decltype(nvrtcGetCUBIN)>(nvrtc, "nvrtcGetCUBIN")(program, made.code.data());
    return made;
  }
  find<decltype(nvrtcGetProgramLogSize)>(nvrtc, "nvrtcGetProgramLogSize")(program, &size);
  std::string log(size, '\0');
  find<decltype(nvrtcGetProgramLog)>(nvrtc, "nvrtcGetProgramLog")(program, log.data());
  made.problem = am::cat("status ", static_cast<int>(result), ": ", log);
  return made;
}

struct Resources {
  unsigned registers = 0;    // per thread
  unsigned stack_bytes = 0;  // per thread: spilled registers, and arrays with variable indices
};

template <typename Value>
Value value_at(std::string_view bytes, size_t at) {
  if (at + sizeof(Value) > bytes.size()) throw std::runtime_error("a cubin ends early");
  Value value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Returns the resources of each kernel of a cubin, from the cubin's section .nv.info. Each entry of
// the section begins with a format (1 byte), an attribute (1 byte) and a size (2 bytes). If the
// format is 4, `size` bytes follow. For the attributes read here, these bytes are the index of a
// symbol and a number, 4 bytes each.
std::map<std::string, Resources> resources(std::string_view cubin) {
  constexpr uint8_t kSized = 4, kFrameBytes = 0x11, kRegisters = 0x2f;
  const auto header = value_at<Elf64_Ehdr>(cubin, 0);
  const auto section = [&](size_t index) {
    return value_at<Elf64_Shdr>(cubin, header.e_shoff + index * header.e_shentsize);
  };
  const auto text = [&](const Elf64_Shdr& strings, size_t at) {
    return std::string(cubin.data() + strings.sh_offset + at);
  };
  std::map<std::string, Elf64_Shdr> sections;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    sections[text(section(header.e_shstrndx), section(i).sh_name)] = section(i);
  }
  const Elf64_Shdr symbols = sections.at(".symtab"), info = sections.at(".nv.info");
  std::map<std::string, Resources> all;
  for (size_t at = info.sh_offset; at < info.sh_offset + info.sh_size; at += 4) {
    const auto format = value_at<uint8_t>(cubin, at), attribute = value_at<uint8_t>(cubin, at + 1);
    if (format != kSized) continue;
    const size_t value = at + 4;
    at += value_at<uint16_t>(cubin, at + 2);
    if (attribute != kFrameBytes && attribute != kRegisters) continue;
    const auto index = value_at<uint32_t>(cubin, value);
    const auto symbol = value_at<Elf64_Sym>(cubin, symbols.sh_offset + index * sizeof(Elf64_Sym));
    const std::string name = text(section(symbols.sh_link), symbol.st_name);
    if (name.starts_with('$')) continue;  // a helper that NVRTC adds, such as a division
    const auto number = value_at<uint32_t>(cubin, value + 4);
    (attribute == kRegisters ? all[name].registers : all[name].stack_bytes) = number;
  }
  return all;
}

// Returns a line for each kernel that exceeds its limits, and for each that is missing in kMost or
// in `used`. Returns an empty text if no kernel has a problem.
std::string problems_of(const std::map<std::string, Resources>& used) {
  std::string problems;
  for (const auto& [name, need] : used) {
    const auto most = kMost.find(name);
    if (most == kMost.end()) {
      problems += am::cat("  ", name, " (", need.registers, " registers) is not in the table\n");
    } else if (need.registers > most->second || need.registers == 0 || need.stack_bytes > 0) {
      problems += am::cat("  ", name, ": ", need.registers, " registers, at most ", most->second,
                          "; ", need.stack_bytes, " bytes of stack, at most 0\n");
    }
  }
  for (const auto& [name, most] : kMost) {
    if (used.count(name) == 0) problems += am::cat("  no kernel ", name, "\n");
  }
  return problems;
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
  for (const char* architecture : {"80", "86", "89", "90", "90a", "100", "120"}) {
    for (const bool narrow : {false, true}) {
      std::map<std::string, Resources> used;
      std::string problems;
      for (const am::cuda::Part part : am::cuda::kParts) {
        const Compiled made = compiled(nvrtc, am::cuda::text_of(part),
                                       am::cuda::compile_options(part, architecture, narrow));
        problems += made.problem;
        if (made.problem.empty()) used.merge(resources(made.code));
      }
      if (problems.empty()) problems = problems_of(used);
      std::printf("sm_%s %s: %s\n", architecture, narrow ? "bfloat16" : "float32",
                  problems.empty() ? "compiles" : am::cat("\n", problems).c_str());
      failed += problems.empty() ? 0 : 1;
    }
  }
  return failed > 0 ? 1 : 0;
}
