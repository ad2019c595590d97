#include "am/tensor/meta_operators.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/linear_compositeimplicitautograd_dispatch.h>
#include <torch/library.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace am::tensor {

namespace {

void require_meta(std::initializer_list<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_meta() && tensor.dim() > 0) throw std::runtime_error("not a meta tensor");
  }
}

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids, c10::SymInt /*padding*/,
                     bool /*scale*/, bool /*sparse*/) {
  require_meta({ids, weight});
  std::vector<int64_t> shape = ids.sizes().vec();
  shape.push_back(weight.size(1));
  return at::empty(shape, weight.options());
}

at::Tensor embedding_backward(const at::Tensor& gradient, const at::Tensor& ids, c10::SymInt rows,
                              c10::SymInt /*padding*/, bool /*scale*/) {
  require_meta({ids, gradient});
  return at::empty({rows.expect_int(), gradient.size(-1)}, gradient.options());
}

at::Tensor index_select(const at::Tensor& x, int64_t dim, const at::Tensor& index) {
  require_meta({x, index});
  std::vector<int64_t> shape = x.sizes().vec();
  shape[static_cast<size_t>(dim)] = index.numel();
  return at::empty(shape, x.options());
}

at::Tensor where_self(const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b) {
  require_meta({condition, a, b});
  const auto shape = at::infer_size(condition.sizes(), at::infer_size(a.sizes(), b.sizes()));
  return at::empty(shape, (a.is_meta() ? a : b).options());
}

at::Tensor& where_out(const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b,
                      at::Tensor& out) {
  out.resize_(where_self(condition, a, b).sizes());
  return out;
}

at::Tensor& logical_and_out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  require_meta({a, b});
  out.resize_(at::infer_size(a.sizes(), b.sizes()));
  return out;
}

// Scratch memory of ATen's attention kernel for the host. Each thread holds the scores of one block
// of queries and keys: in float32 (in float64 for float64 inputs), and again in the inputs' dtype
// if this dtype is narrower. In forward, each thread also holds an output and two statistics for
// each query of the block; in backward, the gradients of the scores and one number for each query.
// Excludes oneDNN's scratch memory for products of narrow dtypes, which depends on the processor.
class AttentionScratch {
 public:
  AttentionScratch(const at::Tensor& q, const at::Tensor& k, bool backward) {
    const int64_t queries = std::min<int64_t>(q.size(2), q.size(2) >= 768   ? 256
                                                         : q.size(2) >= 192 ? 64
                                                                            : 32);
    const int64_t keys = std::min<int64_t>(k.size(2), 512);
    const int64_t rows = queries * (backward ? 1 : 2 + q.size(3));
    const int64_t blocks = backward ? 2 : 1;
    const int64_t threads = at::get_num_threads();
    const bool narrow = q.scalar_type() != at::kFloat && q.scalar_type() != at::kDouble;
    const auto wide = q.options().dtype(narrow ? at::kFloat : q.scalar_type());
    scores_ = at::empty({threads, blocks * queries * keys + rows}, wide);
    if (narrow) narrowed_ = at::empty({threads, blocks, queries, keys}, q.options());
  }

 private:
  at::Tensor scores_;
  at::Tensor narrowed_;
};

// Forward of attention for q [B, H, T, K], k [B, G, S, K] and v [B, G, S, V]: B sequences, H query
// heads, G key/value heads, T queries, S keys, K and V widths of a head. Returns the output
// [B, H, T, V], laid out in memory as [B, T, H, V], and the log-sum-exp of the scores [B, H, T],
// laid out as [B, T, H].
std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& q, const at::Tensor& k,
                                             const at::Tensor& v, double /*dropout*/,
                                             bool /*causal*/, const std::optional<at::Tensor>& mask,
                                             std::optional<double> /*scale*/) {
  require_meta({q, k, v});
  if (mask) require_meta({*mask});
  at::Tensor out =
      at::empty({q.size(0), q.size(2), q.size(1), v.size(3)}, q.options()).transpose(1, 2);
  const auto sums = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor logsumexp =
      at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(sums)).transpose(1, 2);
  const AttentionScratch scratch(q, k, /*backward=*/false);
  return {std::move(out), std::move(logsumexp)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& /*out*/, const at::Tensor& /*logsumexp*/, double /*dropout*/, bool /*causal*/,
    const std::optional<at::Tensor>& /*mask*/, std::optional<double> /*scale*/) {
  require_meta({gradient, q, k, v});
  const auto like = [](const at::Tensor& x) {
    return at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
  };
  auto gradients = std::make_tuple(like(q), like(k), like(v));
  const AttentionScratch scratch(q, k, /*backward=*/true);
  return gradients;
}

// Returns x in the dtype to which the host's autocast, in its current state, would cast x.
at::Tensor autocast(const at::Tensor& x) {
  if (!at::autocast::is_autocast_enabled(at::kCPU)) return x;
  if (!x.is_floating_point() || x.scalar_type() == at::kDouble) return x;
  return x.to(at::autocast::get_autocast_dtype(at::kCPU));
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  const auto added = bias ? std::optional(autocast(*bias)) : std::nullopt;
  return at::compositeimplicitautograd::linear(autocast(x), autocast(weight), added);
}

// Attention that allocates the tensors of a fused kernel. ATen's own operator would use the unfused
// formula on the meta device, which allocates all scores.
at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::optional<at::Tensor>& mask, double dropout, bool causal,
                           std::optional<double> scale, bool /*grouped*/) {
  return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
      autocast(q), autocast(k), autocast(v), dropout, causal, mask, scale));
}

// Checks that the main arguments are meta tensors. The fused updates of AdamW and Adam change
// tensors in place, so there is nothing to allocate.
void fused_adam(at::TensorList parameters, at::TensorList gradients, at::TensorList exp_avg,
                at::TensorList exp_avg_sq, at::TensorList /*max_exp_avg_sq*/,
                at::TensorList /*steps*/, double /*lr*/, double /*beta1*/, double /*beta2*/,
                double /*weight_decay*/, double /*eps*/, bool /*amsgrad*/, bool /*maximize*/,
                const std::optional<at::Tensor>& /*grad_scale*/,
                const std::optional<at::Tensor>& /*found_inf*/) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    require_meta({parameters[i], gradients[i], exp_avg[i], exp_avg_sq[i]});
  }
}

void fused_sgd(at::TensorList parameters, at::TensorList gradients, at::TensorList momentum,
               double /*weight_decay*/, double /*momentum*/, double /*lr*/, double /*dampening*/,
               bool /*nesterov*/, bool /*maximize*/, bool /*is_first_step*/,
               const std::optional<at::Tensor>& /*grad_scale*/,
               const std::optional<at::Tensor>& /*found_inf*/) {
  for (size_t i = 0; i < parameters.size(); ++i) require_meta({parameters[i], gradients[i]});
  for (const at::Tensor& buffer : momentum) require_meta({buffer});
}

}  // namespace

void register_meta_operators() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__,
                                __LINE__);
  static torch::Library with_gradients(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradMeta,
                                       __FILE__, __LINE__);
  static const bool once = [] {
    library.impl("embedding", &embedding);
    library.impl("embedding_dense_backward", &embedding_backward);
    library.impl("index_select", &index_select);
    library.impl("where.self", &where_self);
    library.impl("where.self_out", &where_out);
    library.impl("logical_and.out", &logical_and_out);
    library.impl("_scaled_dot_product_flash_attention_for_cpu", &attention);
    library.impl("_scaled_dot_product_flash_attention_for_cpu_backward", &attention_backward);
    library.impl("_fused_adamw_", &fused_adam);
    library.impl("_fused_adam_", &fused_adam);
    library.impl("_fused_sgd_", &fused_sgd);
    with_gradients.impl("linear", &linear);
    with_gradients.impl("scaled_dot_product_attention", &fused_attention);
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace am::tensor
