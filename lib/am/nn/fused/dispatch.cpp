#include "am/nn/fused/dispatch.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace am::nn::fused {

namespace {

VectorLevel of_processor() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!avx2) return VectorLevel::kBase;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? VectorLevel::kAvx512 : VectorLevel::kAvx2;
#else
  return VectorLevel::kBase;
#endif
}

VectorLevel wished() {
  const char* variable = std::getenv("ATEN_CPU_CAPABILITY");
  const std::string_view wish = variable != nullptr ? variable : "";
  if (wish == "default") return VectorLevel::kBase;
  if (wish == "avx2") return VectorLevel::kAvx2;
  return VectorLevel::kAvx512;
}

}  // namespace

VectorLevel vector_level() {
  static const VectorLevel level = std::min(of_processor(), wished());
  return level;
}

}  // namespace am::nn::fused
