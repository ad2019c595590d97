#include "am/nn/attention/blocked.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/attention/attention.h"
#include "am/nn/attention/flash.h"
#include "am/nn/attention/saved_params.h"
#include "am/nn/autocast.h"
#include "am/nn/fused/tensors.h"

namespace am::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Blocked : torch::autograd::Function<Blocked> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_BHTK,
                            const at::Tensor& k_BGTK, const at::Tensor& v_BGTV,
                            const std::optional<at::Tensor>& sinks_H,
                            const AttentionParams& params) {
    const auto& [out_BTHV, lse_BHT] = attended({q_BHTK, k_BGTK, v_BGTV}, params, {}, sinks_H);
    context->save_for_backward(
        {q_BHTK, k_BGTK, v_BGTV, lse_BHT, params.document_BT, sinks_H.value_or(at::Tensor()),
         flash_takes({q_BHTK, k_BGTK, v_BGTV}, params) ? out_BTHV : at::Tensor()});
    save_params(params, *context);
    return out_BTHV.transpose(1, 2);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const AttentionParams params = saved_params(*context, saved[4]);
    const Qkv heads = {saved[0], saved[1], saved[2]};
    const AutocastScope plain({heads.q_BHtK.device().type(), std::nullopt});
    const auto wide = [](const at::Tensor& like) {
      return at::zeros(like.sizes(), like.options().dtype(fused::wide_dtype(like.scalar_type())));
    };
    const at::Tensor& sinks_H = saved[5];
    HeadGradients sums = {at::zeros_like(heads.q_BHtK), wide(heads.k_BGsK), wide(heads.v_BGsV)};
    if (sinks_H.defined()) {
      sums.sinks_H = at::zeros({sinks_H.size(0)}, sinks_H.options().dtype(saved[3].scalar_type()));
    }
    attend_backward(heads, params, {}, {gradients[0], saved[3], {}, saved[6]}, sums, sinks_H);
    if (sinks_H.defined()) sums.sinks_H = sums.sinks_H.to(sinks_H.scalar_type());
    return {sums.q_BHtK, sums.k_BGsK.to(heads.k_BGsK.scalar_type()),
            sums.v_BGsV.to(heads.v_BGsV.scalar_type()), sums.sinks_H, at::Tensor()};
  }
};

}  // namespace

Attended attended(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                  const std::optional<at::Tensor>& sinks_H) {
  const at::Tensor& q_BHtK = heads.q_BHtK;
  const AutocastScope plain({q_BHtK.device().type(), std::nullopt});
  const int64_t batch = q_BHtK.size(0), count = q_BHtK.size(1), queries = q_BHtK.size(2);
  const auto wide = q_BHtK.options().dtype(fused::wide_dtype(q_BHtK.scalar_type()));
  Attended made = {at::empty({batch, queries, count, heads.v_BGsV.size(3)}, q_BHtK.options()),
                   at::empty({batch, count, queries}, wide)};
  attend(heads, params, firsts, made, sinks_H);
  return made;
}

at::Tensor blocked_attention(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                             const at::Tensor& v_BGTV, const AttentionParams& params,
                             const std::optional<at::Tensor>& sinks_H) {
  const Qkv heads = narrowed({q_BHTK, k_BGTK, v_BGTV});
  return Blocked::apply(heads.q_BHtK, heads.k_BGsK, heads.v_BGsV, sinks_H, params);
}

}  // namespace am::nn
