#include "cuda/host_kernels.h"

#include <math.h>  // expf and others outside of std, as in CUDA C++

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "am/base/normal_math.h"
#include "am/cuda/kernel_launches.h"

// Expands to AM_ONE(name) for each kernel.
#define AM_ALL_KERNELS              \
  AM_ONE(logit_sums)                \
  AM_ONE(cross_entropy_gradient)    \
  AM_ONE(drop)                      \
  AM_ONE(gated_silu)                \
  AM_ONE(gated_gelu_tanh)           \
  AM_ONE(gated_gelu_erf)            \
  AM_ONE(gated_gradients_silu)      \
  AM_ONE(gated_gradients_gelu_tanh) \
  AM_ONE(gated_gradients_gelu_erf)  \
  AM_ONE(rms_norm)                  \
  AM_ONE(rms_norm_by_one)           \
  AM_ONE(rms_norm_gradients)        \
  AM_ONE(rms_norm_gradients_by_one) \
  AM_ONE(rms_norm_weight_gradient)  \
  AM_ONE(rotate)                    \
  AM_ONE(sum_of_rows)               \
  AM_ONE(sum_of_rows_by_one)        \
  AM_ONE(draw)

namespace am::test::host_cuda {
namespace {

using Run = void (*)(const Blocks& grid, void** arguments);
using Table = std::map<std::string_view, Run>;

template <typename... Arguments, size_t... kIndex>
void call(void (*kernel)(Arguments...), const Blocks& grid, void** arguments,
          std::index_sequence<kIndex...> /*indices*/) {
  run_blocks(grid, [&] { kernel(*static_cast<Arguments*>(arguments[kIndex])...); });
}

template <typename... Arguments>
void call(void (*kernel)(Arguments...), const Blocks& grid, void** arguments) {
  call(kernel, grid, arguments, std::index_sequence_for<Arguments...>());
}

#define AM_ONE(name) \
  {#name, [](const Blocks& grid, void** arguments) { call(name, grid, arguments); }},

namespace float32 {
#define AM_BFLOAT16 0
#include "am/cuda/kernels/scalar.cu"
//
#include "am/cuda/kernels/philox.cu"
//
#include "am/cuda/kernels/cross_entropy.cu"
#include "am/cuda/kernels/draw.cu"
#include "am/cuda/kernels/dropout.cu"
#include "am/cuda/kernels/gated.cu"
#include "am/cuda/kernels/rms_norm.cu"
#include "am/cuda/kernels/rotary.cu"
#include "am/cuda/kernels/rows.cu"
#undef AM_BFLOAT16
const Table kTable = {AM_ALL_KERNELS};
}  // namespace float32

namespace bfloat16 {
#define AM_BFLOAT16 1
#include "am/cuda/kernels/scalar.cu"
//
#include "am/cuda/kernels/philox.cu"
//
#include "am/cuda/kernels/cross_entropy.cu"
#include "am/cuda/kernels/draw.cu"
#include "am/cuda/kernels/dropout.cu"
#include "am/cuda/kernels/gated.cu"
#include "am/cuda/kernels/rms_norm.cu"
#include "am/cuda/kernels/rotary.cu"
#include "am/cuda/kernels/rows.cu"
#undef AM_BFLOAT16
const Table kTable = {AM_ALL_KERNELS};
}  // namespace bfloat16

}  // namespace

void run_kernel(std::string_view name, bool bfloat16, const Blocks& grid, void** arguments) {
  const Table& table = bfloat16 ? bfloat16::kTable : float32::kTable;
  const auto found = table.find(name);
  if (found == table.end()) throw std::logic_error("no kernel " + std::string(name));
  found->second(grid, arguments);
}

}  // namespace am::test::host_cuda

namespace am::test {
namespace {

int64_t last_blocks = INT64_MAX, launched = 0;

bool launch_on_host(cuda::Part /*part*/, const at::Tensor& on, const char* name,
                    const cuda::Grid& grid, void** arguments) {
  ++launched;
  host_cuda::run_kernel(
      name, on.scalar_type() == at::kBFloat16,
      {grid.blocks, grid.threads, std::max<int64_t>(0, grid.blocks - last_blocks)}, arguments);
  return true;
}

}  // namespace

const tensor::GpuKernels& host_kernels() { return cuda::kernels_by(launch_on_host); }

LastBlocks::LastBlocks(int64_t count) { last_blocks = count; }
LastBlocks::~LastBlocks() { last_blocks = INT64_MAX; }

int64_t launches() { return launched; }

}  // namespace am::test
