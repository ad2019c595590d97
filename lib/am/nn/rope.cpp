#include "am/nn/rope.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "am/nn/fused/rotary.h"

namespace am::nn {

namespace {

// Returns `frequency` after Llama 3.1's scaling. Computes in float32, so that the bits equal those
// of Hugging Face's code.
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

// Returns YaRN's frequencies, in float32 as in Hugging Face's code. `powers`: theta^(2i / rotated)
// for pair i. The pair of elements that turns `turns` times within the original length has the
// index rotated * ln(length / (2 pi turns)) / (2 ln theta).
at::Tensor yarn_frequencies(const model::RopeConfig& rope, const at::Tensor& powers,
                            int64_t rotated) {
  const auto length = static_cast<double>(rope.original_max_position_embeddings);
  const auto pair_of = [&](double turns) {
    return static_cast<double>(rotated) * std::log(length / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
  };
  double low = pair_of(rope.beta_fast), high = pair_of(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotated - 1));
  if (low == high) high += 0.001;
  const at::Tensor kept =
      1 - ((at::arange(rotated / 2, at::kFloat) - low) / (high - low)).clamp(0, 1);
  return 1.0 / (rope.factor * powers) * (1 - kept) + 1.0 / powers * kept;
}

}  // namespace

at::Tensor rope_inverse_frequencies(const model::RopeConfig& rope, int64_t rotated,
                                    int64_t seq_len) {
  const at::Tensor exponent =
      at::arange(0, rotated, 2, at::kLong).to(at::kFloat) / static_cast<double>(rotated);
  const at::Tensor powers = at::pow(rope.theta, exponent);
  if (rope.type == "yarn") return yarn_frequencies(rope, powers, rotated);
  if (rope.type == "longrope") {
    const bool beyond = seq_len > rope.original_max_position_embeddings;
    return 1.0 /
           (at::tensor(beyond ? rope.long_factor : rope.short_factor).to(at::kFloat) * powers);
  }
  at::Tensor frequencies = 1.0 / powers;
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
                       at::ScalarType dtype, double factor) {
  const auto integers = at::TensorOptions(at::kLong).device(inverse_frequencies.device());
  const at::Tensor positions = at::arange(first, first + count, integers).to(at::kFloat);
  const at::Tensor angles = at::outer(positions, inverse_frequencies);
  const at::Tensor both = at::cat({angles, angles}, -1);
  if (factor == 1.0) return {both.cos().to(dtype), both.sin().to(dtype)};
  return {(both.cos() * factor).to(dtype), (both.sin() * factor).to(dtype)};
}

Rotation gather_rotation(const Rotation& table, const at::Tensor& positions) {
  std::vector<int64_t> sizes = positions.sizes().vec();
  sizes.push_back(table.cos_TK.size(1));
  const at::Tensor flat = positions.reshape({-1});
  return {table.cos_TK.index_select(0, flat).view(sizes),
          table.sin_TK.index_select(0, flat).view(sizes)};
}

at::Tensor documents(const at::Tensor& positions_BT) { return positions_BT.eq(0).cumsum(1); }

std::vector<int64_t> document_starts(const at::Tensor& positions_BT) {
  const at::Tensor dense_BT = positions_BT.contiguous();
  const auto* position = dense_BT.const_data_ptr<int64_t>();
  std::vector<int64_t> starts;
  for (int64_t row = 0; row < dense_BT.numel(); ++row) {
    if (row % dense_BT.size(1) == 0 || position[row] == 0) starts.push_back(row);
  }
  return starts;
}

at::Tensor pairs_to_halves(const at::Tensor& x, int64_t rotated) {
  const int64_t width = x.size(-1);
  const at::Tensor halves =
      x.narrow(-1, 0, rotated).unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2);
  return rotated == width ? halves : at::cat({halves, x.narrow(-1, rotated, width - rotated)}, -1);
}

at::Tensor rotate(const at::Tensor& x_BHTK, const Rotation& rotation) {
  if (!rotation.cos_TK.defined()) return x_BHTK;
  return fused::rotate(x_BHTK, rotation.cos_TK, rotation.sin_TK);
}

}  // namespace am::nn
