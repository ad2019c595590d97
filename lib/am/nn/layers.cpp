#include "am/nn/layers.h"

#include <ATen/ATen.h>

#include <optional>

#include "am/nn/fused/linear.h"
#include "am/nn/fused/rms_norm.h"

namespace am::nn {

at::Tensor apply_transform(const TransformPtr& transform, const at::Tensor& x) {
  return transform ? (*transform)(x) : x;
}

at::Tensor Linear::product(const at::Tensor& x) const {
  std::optional<at::Tensor> added;
  if (bias && !bias_after_output) added = bias->value;
  return fused::linear(x, weight->value, added);
}

at::Tensor Linear::finish(const at::Tensor& y) const {
  at::Tensor finished = apply_transform(output, y);
  return bias && bias_after_output ? finished + bias->value : finished;
}

std::vector<at::Tensor> fan_out(const at::Tensor& x, std::initializer_list<const Linear*> layers) {
  std::vector<at::Tensor> inputs;
  std::vector<TransformPtr> seen;
  for (const Linear* layer : layers) {
    size_t same = 0;
    while (same < seen.size() && seen[same] != layer->input) ++same;
    inputs.push_back(same < seen.size() ? inputs[same] : apply_transform(layer->input, x));
    seen.push_back(layer->input);
  }
  return inputs;
}

at::Tensor Embedding::operator()(const at::Tensor& ids) const {
  return lookup ? lookup(ids, weight->value) : at::embedding(weight->value, ids);
}

at::Tensor Norm::operator()(const at::Tensor& x) const {
  return weight ? fused::rms_norm(x, weight->value, eps, kind) : x;
}

}  // namespace am::nn
