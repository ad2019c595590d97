#include "am/nn/attention/flash_kernels.h"

#include <ATen/ATen.h>

#include <tuple>
#include <utility>

namespace am::nn::flash {
namespace {

std::optional<int64_t> given(int64_t keys) {
  return keys < 0 ? std::nullopt : std::optional<int64_t>(keys);
}

Outputs cudnn_forward(const Inputs& in, bool causal, double scale) {
  auto made = at::_scaled_dot_product_cudnn_attention(
      in.q.transpose(1, 2), in.k.transpose(1, 2), in.v.transpose(1, 2), /*attn_bias=*/{},
      /*compute_log_sumexp=*/true, /*dropout_p=*/0.0, causal, /*return_debug_mask=*/false, scale);
  return {std::get<0>(made).transpose(1, 2), std::get<1>(made).squeeze(-1)};
}

Inputs cudnn_backward(const at::Tensor& of_out, const Inputs& in, const Outputs& made, bool causal,
                      double scale) {
  const at::Tensor no_seed = at::zeros({}, in.q.options().dtype(at::kLong));
  auto [of_q, of_k, of_v] = at::_scaled_dot_product_cudnn_attention_backward(
      of_out.transpose(1, 2), in.q.transpose(1, 2), in.k.transpose(1, 2), in.v.transpose(1, 2),
      made.out.transpose(1, 2), made.lse.contiguous().unsqueeze(-1), no_seed, no_seed,
      /*attn_bias=*/{}, /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, in.q.size(1), in.k.size(1),
      /*dropout_p=*/0.0, causal, scale);
  return {of_q.transpose(1, 2), of_k.transpose(1, 2), of_v.transpose(1, 2)};
}

}  // namespace

bool cudnn_takes(const Inputs& in, const Sizes& sizes, const Reach& reach) {
  constexpr int64_t kWidest = 128;
  const bool square = sizes.longest_q == sizes.longest_k;
  return in.q.is_cuda() && !sizes.cumulative_q && reach.back < 0 && (reach.ahead < 0 || square) &&
         in.q.size(-1) <= kWidest && at::globalContext().userEnabledCuDNNSDP() &&
         !at::globalContext().deterministicAlgorithms();
}

Outputs forward(const Inputs& in, const Sizes& sizes, const Reach& reach, double scale) {
  if (cudnn_takes(in, sizes, reach)) return cudnn_forward(in, reach.ahead == 0, scale);
  auto [out, lse, seed, unused, mask] = at::_flash_attention_forward(
      in.q, in.k, in.v, sizes.cumulative_q, sizes.cumulative_k, sizes.longest_q, sizes.longest_k,
      /*dropout_p=*/0.0, /*is_causal=*/reach.ahead == 0, /*return_debug_mask=*/false, scale,
      given(reach.back), given(reach.ahead));
  return {std::move(out), std::move(lse)};
}

// The kernels require contiguous log-sum-exps, so `made.lse` is copied if it is not contiguous.
Inputs backward(const at::Tensor& of_out, const Inputs& in, const Outputs& made, const Sizes& sizes,
                const Reach& reach, double scale) {
  if (cudnn_takes(in, sizes, reach)) {
    return cudnn_backward(of_out, in, made, reach.ahead == 0, scale);
  }
  const at::Tensor no_seed = at::empty({0}, in.q.options().dtype(at::kUInt64));
  auto [of_q, of_k, of_v] = at::_flash_attention_backward(
      of_out, in.q, in.k, in.v, made.out, made.lse.contiguous(),
      sizes.cumulative_q.value_or(at::Tensor()), sizes.cumulative_k.value_or(at::Tensor()),
      sizes.longest_q, sizes.longest_k, /*dropout_p=*/0.0, /*is_causal=*/reach.ahead == 0, no_seed,
      no_seed, scale, given(reach.back), given(reach.ahead));
  return {std::move(of_q), std::move(of_k), std::move(of_v)};
}

}  // namespace am::nn::flash
