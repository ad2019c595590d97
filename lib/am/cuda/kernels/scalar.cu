// The kernels' element type `Scalar`: bfloat16 if AM_BFLOAT16 is 1, and float32 if it is 0. NVRTC
// has no headers, so all kernels use built-in functions only. They compute in float32, and most of
// them read and write aligned memory in packs of 16 bytes.
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// A test that compiles the kernels for the host defines these macros (tests/cuda/host_cuda.h).
#ifndef AM_KERNEL
#define AM_KERNEL extern "C" __global__ void
#define AM_ROUND_TO_BFLOAT16(bits, x) asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x))
#endif

#if AM_BFLOAT16
struct Scalar {
  u16 bits;
};
__device__ __forceinline__ float wide(Scalar x) { return __uint_as_float(u32(x.bits) << 16); }
__device__ __forceinline__ Scalar narrow(float x) {
  Scalar y;
  AM_ROUND_TO_BFLOAT16(y.bits, x);
  return y;
}
#else
typedef float Scalar;
__device__ __forceinline__ float wide(Scalar x) { return x; }
__device__ __forceinline__ Scalar narrow(float x) { return x; }
#endif

constexpr int kLanes = 16 / sizeof(Scalar);

// `kWidth` elements that are read together. kWidth is kLanes, or 1 for rows that do not consist of
// whole, aligned packs.
template <int kWidth>
struct alignas(kWidth * sizeof(Scalar)) Group {
  Scalar at[kWidth];
};

template <int kWidth>
__device__ __forceinline__ Group<kWidth> group(const Scalar* x) {
  return *reinterpret_cast<const Group<kWidth>*>(x);
}
template <int kWidth>
__device__ __forceinline__ void store(Scalar* x, const Group<kWidth>& value) {
  *reinterpret_cast<Group<kWidth>*>(x) = value;
}

using Pack = Group<kLanes>;
__device__ __forceinline__ const Pack& pack(const Scalar* x) {
  return *reinterpret_cast<const Pack*>(x);
}
__device__ __forceinline__ Pack& pack(Scalar* x) { return *reinterpret_cast<Pack*>(x); }

// Whether a row of `width` elements consists of whole, aligned packs.
__device__ __forceinline__ bool in_packs(const Scalar* row, i64 width) {
  return width % kLanes == 0 && reinterpret_cast<u64>(row) % sizeof(Pack) == 0;
}
