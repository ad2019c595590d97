// Defines the keywords and built-in functions of CUDA C++ that the kernels in am/cuda/kernels use.
// With them, the text of these kernels compiles and runs on the host.
//
//   namespace am::test::host_cuda {
//   namespace float32 {
//   #define AM_BFLOAT16 0
//   #include "am/cuda/kernels/scalar.cu"
//   #include "am/cuda/kernels/gated.cu"
//   }
//   }
//   run_blocks({.blocks = 3, .threads = 256}, [&] { float32::gated_silu(y, gate, up, count); });
//
// The threads of a block are fibers of the calling thread. A fiber runs until it ends or waits for
// other fibers (__syncthreads, shuffles). The fiber that runs next is chosen at random or, in about
// half of the blocks, is the fiber that became ready last. Because of this order, a missing barrier
// yields wrong values. Blocks run one after the other. run_blocks() throws std::logic_error if some
// threads of a block do not reach a barrier, or if some lanes of a shuffle's mask do not reach the
// shuffle.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

namespace am::test::host_cuda {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// CUDA's built-in variables, as the running thread sees them.
extern Dim3 threadIdx, blockIdx, blockDim, gridDim;

// A grid of `blocks` blocks with `threads` threads each. Only the blocks from `first` on are run.
struct Blocks {
  int64_t blocks = 0;
  int threads = 256;
  int64_t first = 0;
};

// Runs the kernel in all threads of the blocks from `grid.first` on. The threads' order is random,
// with the environment variable `AM_OPERATORS_SEED` as its seed. A block has 1 to 1024 threads.
void run_blocks(const Blocks& grid, const std::function<void()>& kernel);

// Waits until all threads of the block have called this function.
void wait_for_block();
// Waits until all lanes in `mask` have called this function. Returns the value that the lane `from`
// passed.
uint64_t exchange(unsigned mask, uint64_t value, unsigned from);
// Returns the lane of the running thread within its warp.
unsigned lane();

template <typename Value>
Value exchanged(unsigned mask, Value value, unsigned from) {
  static_assert(sizeof(Value) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, from);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// NOLINTBEGIN(bugprone-reserved-identifier, cert-dcl37-c, cert-dcl51-cpp): CUDA's names
inline void __syncthreads() { wait_for_block(); }
template <typename Value>
Value __shfl_xor_sync(unsigned mask, Value value, int apart) {
  return exchanged(mask, value, lane() ^ static_cast<unsigned>(apart));
}
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline float __int_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
// NOLINTEND(bugprone-reserved-identifier, cert-dcl37-c, cert-dcl51-cpp)

// Returns the bits of the bfloat16 nearest to x, ties to even. NaN becomes 0x7fff, as on a GPU.
inline uint16_t bfloat16_bits(float x) {
  if (std::isnan(x)) return 0x7fff;
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace am::test::host_cuda

#define AM_KERNEL static void
#define AM_ROUND_TO_BFLOAT16(bits, x) bits = am::test::host_cuda::bfloat16_bits(x)
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static  // one copy is enough, because the blocks run one after the other
