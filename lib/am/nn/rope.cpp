#include "am/nn/rope.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "am/nn/fused/rotary.h"

namespace am::nn {

namespace {

// One frequency under Llama 3.1's scaling, in float32 like the reference so that the same bits come
// out.
float llama3_frequency(const model::RopeConfig& rope, float frequency) {
  const auto original = static_cast<float>(rope.original_max_position_embeddings);
  const auto factor = static_cast<float>(rope.factor);
  const auto low = static_cast<float>(rope.low_freq_factor);
  const auto high = static_cast<float>(rope.high_freq_factor);
  const float wavelength = 2.0F * std::numbers::pi_v<float> / frequency;
  if (wavelength > original / low) return frequency / factor;
  if (wavelength < original / high) return frequency;
  const float smooth = (original / wavelength - low) / (high - low);
  return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

at::Tensor rope_inverse_frequencies(const model::RopeConfig& rope, int64_t head_dim) {
  const at::Tensor exponent =
      at::arange(0, head_dim, 2, at::kLong).to(at::kFloat) / static_cast<double>(head_dim);
  at::Tensor frequencies = 1.0 / at::pow(rope.theta, exponent);
  if (rope.type == "linear") frequencies = frequencies / rope.factor;
  if (rope.type == "llama3") {
    auto* values = frequencies.data_ptr<float>();
    for (int64_t i = 0; i < frequencies.numel(); ++i) {
      values[i] = llama3_frequency(rope, values[i]);
    }
  }
  return frequencies;
}

Rotation make_rotation(const at::Tensor& inverse_frequencies, int64_t first, int64_t count,
                       at::ScalarType dtype) {
  const auto integers = at::TensorOptions(at::kLong).device(inverse_frequencies.device());
  const at::Tensor positions = at::arange(first, first + count, integers).to(at::kFloat);
  const at::Tensor angles = at::outer(positions, inverse_frequencies);
  const at::Tensor both = at::cat({angles, angles}, -1);
  return {both.cos().to(dtype), both.sin().to(dtype)};
}

Rotation gather_rotation(const Rotation& table, const at::Tensor& positions_BT) {
  const auto gather = [&](const at::Tensor& table_TK) {
    return table_TK.index_select(0, positions_BT.reshape({-1}))
        .view({positions_BT.size(0), positions_BT.size(1), table_TK.size(1)});
  };
  return {gather(table.cos_TK), gather(table.sin_TK)};
}

at::Tensor documents(const at::Tensor& positions_BT) { return positions_BT.eq(0).cumsum(1); }

at::Tensor rotate(const at::Tensor& x_BHTK, const Rotation& rotation) {
  if (!rotation.cos_TK.defined()) return x_BHTK;
  return fused::rotate(x_BHTK, rotation.cos_TK, rotation.sin_TK);
}

}  // namespace am::nn
