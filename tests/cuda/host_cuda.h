// Compiles the text of GPU kernels for the host, and runs them there: the keywords and built-in
// functions of CUDA C++ that am/cuda/kernels uses.
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
// others (__syncthreads, shuffles). The fiber that runs next is chosen at random or, in about half
// of the blocks, is the one that became ready last. Blocks run one after the other. Hence a missing
// barrier yields wrong values. Barriers that not all threads of the block reach, or shuffles that
// not all named lanes reach, throw std::logic_error.
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

// A grid of `blocks` blocks. Only the blocks from `first` on are run.
struct Blocks {
  int64_t blocks = 0;
  int threads = 256;
  int64_t first = 0;
};

// Runs the kernel in all threads of all blocks. Threads run in a random order, which depends on
// `AM_OPERATORS_SEED` alone.
void run_blocks(const Blocks& grid, const std::function<void()>& kernel);

// Wait until all threads of the block, or all lanes of the mask, have called the function.
// exchange() returns the value of the lane `from`.
void wait_for_block();
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

// Returns the bfloat16 nearest to x, ties to even; NaN becomes 0x7fff, as on a GPU.
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
#define __shared__ static  // the blocks run one after the other
