#include "am/nn/layers.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "am/nn/fused/adapted_linear.h"
#include "am/nn/fused/layer_norm.h"
#include "am/nn/fused/linear.h"
#include "am/nn/fused/look_up.h"
#include "am/nn/fused/rms_norm.h"
#include "am/nn/fused/shared_rms_norm.h"

namespace am::nn {

at::Tensor apply_transform(const TransformPtr& transform, const at::Tensor& x) {
  return transform ? (*transform)(x) : x;
}

std::optional<at::Tensor> Linear::added() const {
  if (bias && !bias_after_output) return bias->value;
  return std::nullopt;
}

at::Tensor Linear::product(const at::Tensor& x) const {
  return adapter ? products(x).front() : fused::linear(x, weight->value, added(), form());
}

std::vector<at::Tensor> Linear::products(const at::Tensor& x,
                                         const std::vector<at::Tensor>& known) const {
  if (outputs() == 1 && known.empty() && !adapter) return {product(x)};
  fused::Slices outputs_of = {.lengths = slices, .form = form(), .known = known};
  if (outputs() == 1) outputs_of.lengths = {weight->value.size(in_out ? 1 : 0)};
  if (!adapter) return fused::sliced_linear(x, weight->value, added(), outputs_of);
  const auto dropout = adapter->dropout ? adapter->dropout->here() : std::nullopt;
  const fused::LowRank low = {adapter->a->value, adapter->b->value, adapter->scale, dropout};
  if (!adapter->magnitude) {
    return fused::adapted_linear(x, weight->value, added(), low, outputs_of);
  }
  // `known` contains outputs after the scaling by magnitudes, so the unscaled outputs are computed
  // again.
  outputs_of.known.clear();
  return with_magnitudes(fused::adapted_linear(x, weight->value, {}, low, outputs_of),
                         outputs_of.lengths);
}

std::vector<at::Tensor> Linear::with_magnitudes(std::vector<at::Tensor> outputs,
                                                const std::vector<int64_t>& lengths) const {
  const at::Tensor norms_O = fused::adapted_norms(
      weight->value, in_out, {adapter->a->value, adapter->b->value, adapter->scale}, adapter->sum);
  const at::Tensor scale_O = adapter->magnitude->value / norms_O;
  fused::for_slices(lengths, [&](size_t i, int64_t first, int64_t length) {
    at::Tensor& y = outputs[i];
    y = y * scale_O.narrow(0, first, length).to(y.scalar_type());
    if (const auto bias_O = added()) y = y + bias_O->narrow(0, first, length).to(y.scalar_type());
  });
  return outputs;
}

at::Tensor Linear::finish(const at::Tensor& y) const {
  at::Tensor finished = apply_transform(output, y);
  return bias && bias_after_output ? finished + bias->value : finished;
}

at::Tensor Embedding::operator()(const at::Tensor& ids) const {
  return lookup ? lookup(ids, weight->value)
                : fused::look_up(weight->value, ids, padding.value_or(-1));
}

at::Tensor Norm::operator()(const at::Tensor& x) const {
  if (!weight) return x;
  if (sum) return fused::shared_rms_norm(x, weight->value, {eps, kind, width, &sum});
  if (!model::is_layer_norm(kind)) return fused::rms_norm(x, weight->value, eps, kind);
  std::optional<at::Tensor> shift;
  if (bias) shift = bias->value;
  const bool plus_one = kind == model::NormKind::kLayerPlusOne;
  return fused::layer_norm(x, plus_one ? weight->value + 1 : weight->value, shift, eps);
}

std::pair<at::Tensor, at::Tensor> Norm::of_sum(const at::Tensor& x, at::Tensor added) const {
  if (!weight || sum || model::is_layer_norm(kind)) {
    const at::Tensor whole = x + std::exchange(added, {});
    return {whole, (*this)(whole)};
  }
  const fused::NormedSum both = fused::normed_sum(x, std::move(added), weight->value, eps, kind);
  return {both.sum, both.y};
}

}  // namespace am::nn
