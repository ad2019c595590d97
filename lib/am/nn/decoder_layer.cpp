#include "am/nn/decoder_layer.h"

#include <ATen/ATen.h>

#include <optional>

#include "am/nn/attention/blocked.h"
#include "am/nn/fused/gated.h"

namespace am::nn {
namespace {

using planner::Saved;

// x_BT(H*K) -> BHTK
at::Tensor split_heads(const at::Tensor& x, int64_t head_dim) {
  return x.view({x.size(0), x.size(1), -1, head_dim}).transpose(1, 2);
}

bool trains(const Linear& linear) {
  return linear.weight->value.requires_grad() ||
         (linear.bias && linear.bias->value.requires_grad());
}

bool trains(const Norm& norm) { return norm.weight && norm.weight->value.requires_grad(); }

// After frozen layers the input needs no gradient, but the parameters may.
bool trains(const DecoderLayer& layer) {
  const Attention& attention = layer.self_attn;
  const FeedForward& mlp = layer.mlp;
  return trains(layer.input_norm) || trains(layer.post_attention_norm) ||
         trains(layer.pre_feed_forward_norm) || trains(layer.post_feed_forward_norm) ||
         trains(attention.q_proj) || trains(attention.k_proj) || trains(attention.v_proj) ||
         trains(attention.o_proj) || trains(attention.q_norm) || trains(attention.k_norm) ||
         trains(mlp.gate_proj) || trains(mlp.up_proj) || trains(mlp.down_proj);
}

// One forward pass of a layer, cut into parts. A part whose tensors are not kept runs as a segment
// of its own, unless the whole layer is one.
class LayerPass {
 public:
  LayerPass(const DecoderLayer& layer, const Rotation& rotation, planner::SavedSet kept)
      : layer_(layer), rotation_(rotation), kept_(kept), whole_(!kept.has(Saved::kHeads)) {}

  at::Tensor operator()(const at::Tensor& x_BTD) const {
    const Segment run = [pass = *this](const Tensors& in, Products& products) {
      return pass.feed_forward(pass.attended(in[0]), products);
    };
    return ended(part(whole_, run, {x_BTD}));
  }

 private:
  // Whether a part runs as a segment: nothing that it saves is kept.
  bool repeats(Saved saved) const { return !whole_ && !kept_.has(saved); }

  // Runs a part as a segment that computes itself `again`, or as it is: `outer` is the products of
  // the segment that it ends.
  Tensors part(bool again, const Segment& run, const Tensors& in, Products& outer) const {
    return again ? checkpoint(run, in, trains(layer_)) : run(in, outer);
  }
  Tensors part(bool again, const Segment& run, const Tensors& in) const {
    Products none;
    return part(again, run, in, none);
  }

  // x_BTD -> {x_BTD, q_BTX, k_BTX, v_BTX}
  Tensors projections(const at::Tensor& x_BTD) const {
    const Segment run = [&layer = layer_](const Tensors& in, Products& products) -> Tensors {
      const Attention& attention = layer.self_attn;
      const auto inputs = fan_out(layer.input_norm(in[0]),
                                  {&attention.q_proj, &attention.k_proj, &attention.v_proj});
      return {in[0], products.returned(attention.q_proj, inputs[0]),
              products.returned(attention.k_proj, inputs[1]),
              products.returned(attention.v_proj, inputs[2])};
    };
    Tensors out = part(repeats(Saved::kInputNorm), run, {x_BTD});
    out[1] = layer_.self_attn.q_proj.finish(out[1]);
    out[2] = layer_.self_attn.k_proj.finish(out[2]);
    out[3] = layer_.self_attn.v_proj.finish(out[3]);
    return out;
  }

  // A rotation alone saves nothing of its input; a norm before it does.
  at::Tensor placed(const at::Tensor& x_BTX, const Norm& norm) const {
    const Attention& attention = layer_.self_attn;
    if (!norm.weight || !repeats(Saved::kHeadNorms)) return attention.place(x_BTX, norm, rotation_);
    const Segment run = [&attention, &norm, rotation = rotation_](const Tensors& in,
                                                                  Products&) -> Tensors {
      return {attention.place(in[0], norm, rotation)};
    };
    return checkpoint(run, {x_BTX}, trains(norm))[0];
  }

  // x_BTD -> the sum after attention, BTD
  at::Tensor attended(const at::Tensor& x_BTD) const {
    const Attention& attention = layer_.self_attn;
    const Tensors of_x = projections(x_BTD);
    const at::Tensor q_BHTK = placed(of_x[1], attention.q_norm);
    const at::Tensor k_BGTK = placed(of_x[2], attention.k_norm);
    const at::Tensor mixed_BTX = attention.mix(q_BHTK, k_BGTK, of_x[3], rotation_);
    const Segment run = [&layer = layer_](const Tensors& in, Products&) -> Tensors {
      return {in[0] + layer.post_attention_norm(layer.self_attn.o_proj(in[1]))};
    };
    // A norm after a projection saves what that gave.
    const bool again = layer_.post_attention_norm.weight && repeats(Saved::kOtherNorms);
    return part(again, run, {of_x[0], mixed_BTX})[0];
  }

  // attended_BTD -> {attended_BTD, down_proj's product, BTD}, which ends the segment that has
  // `outer`; or the layer's output alone, where the norm behind that product is inside of a
  // segment.
  Tensors feed_forward(const at::Tensor& attended_BTD, Products& outer) const {
    // Without a norm before it, what gate and up read is the residual stream.
    const bool from_sum = repeats(Saved::kOtherNorms) ||
                          (repeats(Saved::kUp) && !layer_.pre_feed_forward_norm.weight);
    const bool from_norm = !from_sum && repeats(Saved::kUp);
    const bool norm_inside =
        layer_.post_feed_forward_norm.weight && (whole_ || repeats(Saved::kOtherNorms));
    const Segment inside = [&mlp = layer_.mlp, keeps_gate = kept_.has(Saved::kGate),
                            leaves = !norm_inside](const Tensors& in,
                                                   Products& products) -> Tensors {
      return {mlp.product(in[0], keeps_gate, leaves, products)};
    };
    const Segment run = [pass = *this, inside, from_norm, norm_inside](
                            const Tensors& in, Products& products) -> Tensors {
      const at::Tensor x_BTD = pass.layer_.pre_feed_forward_norm(in[0]);
      Tensors out = {in[0], pass.part(from_norm, inside, {x_BTD}, products)[0]};
      if (norm_inside) return {pass.ended(out)};
      return out;
    };
    return part(from_sum, run, {attended_BTD}, outer);
  }

  // What feed_forward gives -> the layer's output.
  at::Tensor ended(const Tensors& out) const {
    if (out.size() == 1) return out[0];
    return out[0] + layer_.post_feed_forward_norm(layer_.mlp.down_proj.finish(out[1]));
  }

  const DecoderLayer& layer_;
  Rotation rotation_;
  planner::SavedSet kept_;
  bool whole_;  // the layer is one segment
};

}  // namespace

at::Tensor Attention::place(const at::Tensor& x_BTX, const Norm& norm,
                            const Rotation& rotation) const {
  if (!norm.weight || norms_span_heads) {
    return rotate(split_heads(norm(x_BTX), head_dim), rotation);
  }
  // Normalised before heads and positions change places: attention lays its output out as its
  // queries, and o_proj would copy one that is not [B, T, H, K] in memory.
  const at::Tensor x_BTHK = x_BTX.view({x_BTX.size(0), x_BTX.size(1), -1, head_dim});
  return rotate(norm(x_BTHK).transpose(1, 2), rotation);
}

at::Tensor Attention::mix(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                          const at::Tensor& v_BTX, const Rotation& rotation) const {
  const at::Tensor v_BGTK = split_heads(v_BTX, head_dim);
  const int64_t length = q_BHTK.size(2);
  const bool cut = window > 0 && window < length;
  at::Tensor mixed_BHTK;
  if (cut || softcap || rotation.document_BT.defined()) {
    mixed_BHTK = blocked_attention(q_BHTK, k_BGTK, v_BGTK,
                                   {.scale = scale,
                                    .softcap = softcap,
                                    .window = cut ? window : 0,
                                    .document_BT = rotation.document_BT});
  } else {
    const bool grouped = q_BHTK.size(1) != k_BGTK.size(1);
    mixed_BHTK = at::scaled_dot_product_attention(q_BHTK, k_BGTK, v_BGTK, /*attn_mask=*/{},
                                                  /*dropout_p=*/0.0, /*is_causal=*/true, scale,
                                                  /*enable_gqa=*/grouped);
  }
  return mixed_BHTK.transpose(1, 2).reshape({q_BHTK.size(0), length, q_BHTK.size(1) * head_dim});
}

at::Tensor FeedForward::product(const at::Tensor& x_BTD, bool keeps_gate, bool leaves,
                                Products& products) const {
  const auto inputs = fan_out(x_BTD, {&gate_proj, &up_proj});
  const at::Tensor gate_BTF = keeps_gate ? gate_proj.finish(products.kept(gate_proj, inputs[0]))
                                         : gate_proj.apply_to(inputs[0]);
  const at::Tensor up_BTF = up_proj.apply_to(inputs[1]);
  if (!products.in_segment() && !down_proj.input) {
    std::optional<at::Tensor> added;
    if (down_proj.bias && !down_proj.bias_after_output) added = down_proj.bias->value;
    return fused::gated_linear(gate_BTF, up_BTF, down_proj.weight->value, added, activation);
  }
  const at::Tensor wide_BTF =
      apply_transform(down_proj.input, fused::gated(gate_BTF, up_BTF, activation));
  return leaves ? products.returned(down_proj, wide_BTF) : down_proj.product(wide_BTF);
}

at::Tensor DecoderLayer::operator()(const at::Tensor& x_BTD, const Rotation& rotation,
                                    planner::SavedSet kept) const {
  return LayerPass(*this, rotation, kept)(x_BTD);
}

}  // namespace am::nn
