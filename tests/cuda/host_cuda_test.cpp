// Tests that the fibers, which run GPU kernels on the host, reveal faults of kernels.
#include "cuda/host_cuda.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace am::test::host_cuda {
namespace {

enum class Fault { kNone, kNoBarrier, kWrongLane, kBranchedBarrier, kEndedLane };

// A kernel that writes the sum of each block's values to `sums`. Shuffles sum over the lanes of
// each warp, then thread 0 sums over the warps. `fault` is the kernel's deliberate fault.
void sum_of_block(float* sums, const float* values, Fault fault) {
  __shared__ float of_warps[32];
  float mine = values[blockIdx.x * blockDim.x + threadIdx.x];
  if (fault == Fault::kEndedLane && threadIdx.x == 5) return;
  for (int apart = fault == Fault::kWrongLane ? 8 : 16; apart > 0; apart /= 2) {
    mine += __shfl_xor_sync(0xffffffff, mine, apart);
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  const bool waits = fault != Fault::kBranchedBarrier || threadIdx.x % 32 != 7;
  if (fault != Fault::kNoBarrier && waits) __syncthreads();
  if (threadIdx.x != 0) return;
  mine = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) mine += of_warps[warp];
  sums[blockIdx.x] = mine;
}

// Returns the number of blocks with a wrong sum.
int wrong_sums(Fault fault) {
  constexpr int kBlocks = 20, kThreads = 256;
  std::vector<float> values(size_t{kBlocks} * kThreads), sums(kBlocks, NAN);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97);
  run_blocks({.blocks = kBlocks, .threads = kThreads},
             [&] { sum_of_block(sums.data(), values.data(), fault); });
  int wrong = 0;
  for (size_t block = 0; block < kBlocks; ++block) {
    float wanted = 0;
    for (size_t i = 0; i < kThreads; ++i) wanted += values[block * kThreads + i];
    wrong += sums[block] == wanted ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE("fibers run a block's threads, with barriers and shuffles") {
  CHECK(wrong_sums(Fault::kNone) == 0);
}

TEST_CASE("a missing barrier and a wrong lane yield wrong values") {
  CHECK(wrong_sums(Fault::kNoBarrier) > 0);
  CHECK(wrong_sums(Fault::kWrongLane) > 0);
}

TEST_CASE("a barrier or a shuffle that not all threads reach is an error") {
  CHECK_THROWS_AS(wrong_sums(Fault::kBranchedBarrier), std::logic_error);
  CHECK_THROWS_WITH(wrong_sums(Fault::kEndedLane), Catch::Contains("in a shuffle, 1 have ended"));
}

TEST_CASE("rounding to bfloat16 is to the nearest, ties to even") {
  CHECK(bfloat16_bits(1.0F) == 0x3f80);
  CHECK(bfloat16_bits(1.0F + 0x1p-8F) == 0x3f80);      // a tie
  CHECK(bfloat16_bits(1.0F + 3 * 0x1p-8F) == 0x3f82);  // a tie
  CHECK(bfloat16_bits(1.0F + 0x1.01p-8F) == 0x3f81);
  CHECK(bfloat16_bits(-INFINITY) == 0xff80);
  CHECK(bfloat16_bits(3.4e38F) == 0x7f80);  // beyond the largest bfloat16
  CHECK(bfloat16_bits(NAN) == 0x7fff);
}

}  // namespace am::test::host_cuda
