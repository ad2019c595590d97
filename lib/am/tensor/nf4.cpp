#include "am/tensor/nf4.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

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

// Returns the middles between neighbouring codes, [15].
at::Tensor middles(const at::Device& device) {
  at::Tensor out = at::empty({15}, at::kFloat);
  for (size_t i = 0; i + 1 < kCodes.size(); ++i) {
    const double middle = (static_cast<double>(kCodes[i]) + static_cast<double>(kCodes[i + 1])) / 2;
    out.data_ptr<float>()[i] = static_cast<float>(middle);
  }
  return out.to(device);
}

// Returns the two codes of each byte, [256, 2].
at::Tensor pairs(const at::Device& device) {
  at::Tensor out = at::empty({256, 2}, at::kFloat);
  for (size_t byte = 0; byte < 256; ++byte) {
    out.data_ptr<float>()[2 * byte] = kCodes[byte >> 4U];
    out.data_ptr<float>()[2 * byte + 1] = kCodes[byte & 15U];
  }
  return out.to(device);
}

}  // namespace

void quantize_nf4(const at::Tensor& values, const at::Tensor& codes, const at::Tensor& absmax) {
  if (values.numel() == 0) return;
  AM_ASSERT(values.numel() % absmax.numel() == 0, "blocks of NF4 that differ in length");
  const at::NoGradGuard no_grad;
  const at::Tensor blocks = values.to(at::kFloat).view({absmax.numel(), -1});
  const at::Tensor largest = blocks.abs().amax(1);
  absmax.copy_(largest);
  const at::Tensor scale = at::where(largest == 0, 1.0F, largest).unsqueeze(1);
  const at::Tensor index =
      at::bucketize(blocks / scale, middles(values.device()), /*out_int32=*/true).view({-1, 2});
  codes.copy_(index.select(1, 0) * 16 + index.select(1, 1));
}

void dequantize_nf4(const at::Tensor& codes, const at::Tensor& absmax, const at::Tensor& out) {
  if (out.numel() == 0) return;
  AM_ASSERT(out.numel() % absmax.numel() == 0, "blocks of NF4 that differ in length");
  const at::NoGradGuard no_grad;
  const int64_t block = out.numel() / absmax.numel();
  const int64_t chunk = std::max<int64_t>(1, layout::kNf4Chunk / block);
  const at::Tensor table = pairs(out.device());
  for (int64_t first = 0; first < absmax.numel(); first += chunk) {
    const int64_t count = std::min(chunk, absmax.numel() - first);
    const at::Tensor bytes = codes.narrow(0, first * block / 2, count * block / 2);
    const at::Tensor values = table.index_select(0, bytes.to(at::kInt)).view({count, block});
    values.mul_(absmax.narrow(0, first, count).unsqueeze(1));
    out.narrow(0, first * block, count * block).copy_(values.view({-1}));
  }
}

}  // namespace am::tensor
