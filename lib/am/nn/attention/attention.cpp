#include "am/nn/attention/attention.h"

#include <ATen/ATen.h>

#include "am/nn/attention/blocked.h"
#include "am/nn/autocast.h"

namespace am::nn {

at::Tensor attention(const Qkv& heads, const AttentionParams& params,
                     const std::optional<at::Tensor>& sinks_H) {
  const auto& [q_BHTK, k_BGTK, v_BGTV] = heads;
  const bool cut = params.window > 0 && params.window < q_BHTK.size(2);
  // blocked_attention() supports the features that at::scaled_dot_product_attention lacks. It is
  // also used if values and keys have different widths, which ATen's flash kernels do not support.
  if (cut || params.softcap || !params.slopes.empty() || sinks_H || params.document_BT.defined() ||
      v_BGTV.size(3) != q_BHTK.size(3)) {
    AttentionParams reached = params;
    if (!cut) reached.window = 0;
    return blocked_attention(q_BHTK, k_BGTK, v_BGTV, reached, sinks_H);
  }
  const bool grouped = q_BHTK.size(1) != k_BGTK.size(1);
  return at::scaled_dot_product_attention(q_BHTK, k_BGTK, v_BGTV, /*attn_mask=*/{},
                                          /*dropout_p=*/0.0, /*is_causal=*/true, params.scale,
                                          /*enable_gqa=*/grouped);
}

Qkv narrowed(const Qkv& heads) {
  const auto dtype = current_autocast(heads.q_BHtK.device().type()).dtype;
  if (!dtype) return heads;
  return {heads.q_BHtK.to(*dtype), heads.k_BGsK.to(*dtype), heads.v_BGsV.to(*dtype)};
}

}  // namespace am::nn
