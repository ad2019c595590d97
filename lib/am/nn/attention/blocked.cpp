#include "am/nn/attention/blocked.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/attention/attention.h"
#include "am/nn/attention/saved_look.h"
#include "am/nn/autocast.h"
#include "am/nn/fused/tensors.h"

namespace am::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Blocked : torch::autograd::Function<Blocked> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_BHTK,
                            const at::Tensor& k_BGTK, const at::Tensor& v_BGTV,
                            const std::optional<at::Tensor>& sinks_H, const Look& look) {
    const AutocastScope plain({q_BHTK.device().type(), std::nullopt});
    const int64_t batch = q_BHTK.size(0), heads = q_BHTK.size(1), length = q_BHTK.size(2);
    const auto wide = q_BHTK.options().dtype(fused::wide_dtype(q_BHTK.scalar_type()));
    const at::Tensor out_BTHV = at::empty({batch, length, heads, v_BGTV.size(3)}, q_BHTK.options());
    const at::Tensor lse_BHT = at::empty({batch, heads, length}, wide);
    attend({q_BHTK, k_BGTK, v_BGTV}, look, {}, {out_BTHV, lse_BHT}, sinks_H);
    context->save_for_backward(
        {q_BHTK, k_BGTK, v_BGTV, lse_BHT, look.document_BT, sinks_H.value_or(at::Tensor())});
    save_look(look, *context);
    return out_BTHV.transpose(1, 2);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Look look = saved_look(*context, saved[4]);
    const Heads heads = {saved[0], saved[1], saved[2]};
    const AutocastScope plain({heads.q_BHtK.device().type(), std::nullopt});
    const auto wide = [](const at::Tensor& like) {
      return at::zeros(like.sizes(), like.options().dtype(fused::wide_dtype(like.scalar_type())));
    };
    const at::Tensor& sinks_H = saved[5];
    HeadGradients sums = {at::zeros_like(heads.q_BHtK), wide(heads.k_BGsK), wide(heads.v_BGsV)};
    if (sinks_H.defined()) {
      sums.sinks_H = at::zeros({sinks_H.size(0)}, sinks_H.options().dtype(saved[3].scalar_type()));
    }
    attend_backward(heads, look, {}, {gradients[0], saved[3]}, sums, sinks_H);
    if (sinks_H.defined()) sums.sinks_H = sums.sinks_H.to(sinks_H.scalar_type());
    return {sums.q_BHtK, sums.k_BGsK.to(heads.k_BGsK.scalar_type()),
            sums.v_BGsV.to(heads.v_BGsV.scalar_type()), sums.sinks_H, at::Tensor()};
  }
};

}  // namespace

at::Tensor blocked_attention(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                             const at::Tensor& v_BGTV, const Look& look,
                             const std::optional<at::Tensor>& sinks_H) {
  const Heads heads = narrowed({q_BHTK, k_BGTK, v_BGTV});
  return Blocked::apply(heads.q_BHtK, heads.k_BGsK, heads.v_BGsV, sinks_H, look);
}

}  // namespace am::nn
