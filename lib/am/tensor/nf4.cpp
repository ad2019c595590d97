#include "am/tensor/nf4.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "am/base/error.h"
#include "am/layout/quantization.h"

namespace am::tensor {
namespace {

constexpr std::array<float, 16> kCodes = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

// Returns the midpoints between neighbouring values of kCodes: [15], float32.
at::Tensor middles(const at::Device& device) {
  at::Tensor out = at::empty({15}, at::kFloat);
  for (size_t i = 0; i + 1 < kCodes.size(); ++i) {
    const double middle = (static_cast<double>(kCodes[i]) + static_cast<double>(kCodes[i + 1])) / 2;
    out.data_ptr<float>()[i] = static_cast<float>(middle);
  }
  return out.to(device);
}

// Returns the values of the two codes in each possible byte: [256, 2], float32, in host memory.
at::Tensor pairs() {
  at::Tensor out = at::empty({256, 2}, at::kFloat);
  for (size_t byte = 0; byte < 256; ++byte) {
    out.data_ptr<float>()[2 * byte] = kCodes[byte >> 4U];
    out.data_ptr<float>()[2 * byte + 1] = kCodes[byte & 15U];
  }
  return out;
}

// Returns the result of pairs() on the device. For a GPU, keeps the tensor for later calls, because
// each copy from the host would block the host.
at::Tensor pairs_on(const at::Device& device) {
  if (!device.is_cuda()) return pairs().to(device);
  static std::mutex mutex;
  // Never destroyed, so that the tensors outlive all streams.
  static auto* const kept = new std::map<c10::DeviceIndex, at::Tensor>();
  const std::lock_guard lock(mutex);
  at::Tensor& table = (*kept)[device.index()];
  if (!table.defined()) table = pairs().to(device);
  return table;
}

}  // namespace

void quantize_nf4(const at::Tensor& values, const at::Tensor& codes, const at::Tensor& absmax) {
  if (values.numel() == 0) return;
  AM_ASSERT(values.numel() % absmax.numel() == 0, "blocks of NF4 that differ in length");
  const at::NoGradGuard no_grad;
  const int64_t block = values.numel() / absmax.numel();
  const int64_t chunk = std::max<int64_t>(1, layout::kNf4Chunk / block);
  const at::Tensor between = middles(values.device());
  for (int64_t first = 0; first < absmax.numel(); first += chunk) {
    const int64_t count = std::min(chunk, absmax.numel() - first);
    const at::Tensor blocks =
        values.narrow(0, first * block, count * block).to(at::kFloat).view({count, block});
    const at::Tensor largest = blocks.abs().amax(1);
    absmax.narrow(0, first, count).copy_(largest);
    const at::Tensor scale = at::where(largest == 0, 1.0F, largest).unsqueeze(1);
    const at::Tensor index =
        at::bucketize(blocks / scale, between, /*out_int32=*/true).view({-1, 2});
    codes.narrow(0, first * block / 2, count * block / 2)
        .copy_(index.select(1, 0) * 16 + index.select(1, 1));
  }
}

void dequantize_nf4(const at::Tensor& codes, const at::Tensor& absmax, const at::Tensor& out) {
  if (out.numel() == 0) return;
  AM_ASSERT(out.numel() % absmax.numel() == 0, "blocks of NF4 that differ in length");
  const at::NoGradGuard no_grad;
  const int64_t rows = out.size(0), blocks = absmax.size(1);
  const int64_t block = out.numel() / absmax.numel();
  const int64_t chunk = std::max<int64_t>(1, layout::kNf4Chunk / block / rows);
  const at::Tensor table = pairs_on(out.device());
  for (int64_t first = 0; first < blocks; first += chunk) {
    const int64_t count = std::min(chunk, blocks - first);
    const at::Tensor index =
        codes.narrow(1, first * block / 2, count * block / 2)
            .to(at::kInt, /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::Contiguous);
    const at::Tensor values = table.index_select(0, index.view({-1})).view({rows, count, block});
    values.mul_(absmax.narrow(1, first, count).unsqueeze(2));
    out.narrow(1, first * block, count * block).copy_(values.view({rows, -1}));
  }
}

}  // namespace am::tensor
