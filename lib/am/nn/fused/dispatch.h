// Runs a kernel on the host, in the version compiled for the processor's instruction set.
//
//   struct Double {
//     template <int kBytes>   // register width
//     AM_INLINE static void run(float* out, const float* in, int64_t count) { .. }  // lanes.h
//   };
//
//   run_kernel<Double>(out, in, count);
//
// There are three instruction-set levels, as for ATen's kernels: AVX-512, AVX2 with fused
// multiply-add, and the baseline. The environment variable ATEN_CPU_CAPABILITY (default, avx2,
// avx512) lowers the level of ATen and of these kernels.
#pragma once

#include "am/nn/fused/lanes.h"

namespace am::nn::fused {

enum class VectorLevel { kBase, kAvx2, kAvx512 };

// Returns the level that this process uses: the processor's level or, if lower, the level of
// ATEN_CPU_CAPABILITY.
VectorLevel vector_level();

#if defined(__x86_64__)

template <typename Kernel, typename... Arguments>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")]] void
run_on_avx512(Arguments... arguments) {
  Kernel::template run<64>(arguments...);
}

template <typename Kernel, typename... Arguments>
[[gnu::target("avx2,fma")]] void run_on_avx2(Arguments... arguments) {
  Kernel::template run<32>(arguments...);
}

template <typename Kernel, typename... Arguments>
void run_kernel(Arguments... arguments) {
  switch (vector_level()) {
    case VectorLevel::kAvx512:
      return run_on_avx512<Kernel>(arguments...);
    case VectorLevel::kAvx2:
      return run_on_avx2<Kernel>(arguments...);
    case VectorLevel::kBase:
      break;
  }
  Kernel::template run<16>(arguments...);
}

#else

template <typename Kernel, typename... Arguments>
void run_kernel(Arguments... arguments) {
  Kernel::template run<16>(arguments...);
}

#endif

}  // namespace am::nn::fused
