#include "am/nn/decoder_layer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "am/nn/fused/gated.h"
#include "am/nn/fused/rotary.h"
#include "am/tensor/gpu_kernels.h"

namespace am::nn {
namespace {

using layout::Saved;

// Returns x [B, T, H * K] as [B, H, T, K].
at::Tensor split_heads(const at::Tensor& x, int64_t head_dim) {
  return x.view({x.size(0), x.size(1), -1, head_dim}).transpose(1, 2);
}

// Returns q_BTX or k_BTX as [B, H, T, K], normalised unless norm.weight is null or the norm follows
// the rotation.
at::Tensor normed_heads(const Attention& attention, const at::Tensor& x_BTX, const Norm& norm) {
  const int64_t head_dim = attention.head_dim;
  if (attention.norms_follow_rope) return split_heads(x_BTX, head_dim);
  if (!norm.weight || attention.norms_span_heads) return split_heads(norm(x_BTX), head_dim);
  // The norm runs before heads and positions are transposed, so that queries are [B, T, H, K] in
  // memory. Attention lays its output out like its queries, and o_proj would copy any other layout.
  const at::Tensor x_BTHK = x_BTX.view({x_BTX.size(0), x_BTX.size(1), -1, head_dim});
  return norm(x_BTHK).transpose(1, 2);
}

// Returns the rotation's input: the result of normed_heads(), reordered if RoPE pairs adjacent
// elements.
at::Tensor unrotated_heads(const Attention& attention, const at::Tensor& x_BTX, const Norm& norm,
                           const Rotation& rotation) {
  const at::Tensor x_BHTK = normed_heads(attention, x_BTX, norm);
  if (!attention.interleaved) return x_BHTK;
  // The copy is [B, T, H, K] in memory, as in normed_heads().
  return pairs_to_halves(x_BHTK.transpose(1, 2), rotation.cos_TK.size(-1)).transpose(1, 2);
}

// Returns the rotated heads x_BHTK, normalised if the norm follows the rotation.
at::Tensor rotated_heads(const Attention& attention, const at::Tensor& x_BHTK, const Norm& norm) {
  if (!attention.norms_follow_rope) return x_BHTK;
  return norm(x_BHTK.transpose(1, 2)).transpose(1, 2);
}

// Returns the output of attention or of the feed-forward, multiplied by residual_scale.
at::Tensor scaled(const DecoderLayer& layer, const at::Tensor& branch_BTD) {
  return layer.residual_scale == 1.0 ? branch_BTD : branch_BTD * layer.residual_scale;
}

bool trains(const Linear& linear) {
  const bool adapts = linear.adapter && (linear.adapter->a->value.requires_grad() ||
                                         linear.adapter->b->value.requires_grad());
  return adapts || linear.weight->value.requires_grad() ||
         (linear.bias && linear.bias->value.requires_grad());
}

bool trains(const Norm& norm) {
  return (norm.weight && norm.weight->value.requires_grad()) ||
         (norm.bias && norm.bias->value.requires_grad());
}

// Whether the layer has trainable parameters. A layer without trainable parameters keeps nothing
// for backward if the layer's input needs no gradient either (all earlier layers are frozen).
bool trains(const DecoderLayer& layer) {
  const auto linears = layer.linears();
  const auto norms = layer.norms();
  const auto trained = [](const auto* each) { return trains(*each); };
  const ParameterPtr& sinks = layer.self_attn.sinks;
  return (sinks && sinks->value.requires_grad()) ||
         std::any_of(linears.begin(), linears.end(), trained) ||
         std::any_of(norms.begin(), norms.end(), trained);
}

// Whether a parameter of the input norm or of the projections before attention is trainable.
bool projections_train(const DecoderLayer& layer) {
  const auto& inputs = layer.self_attn.inputs.linears;
  return trains(layer.input_norm) ||
         std::any_of(inputs.begin(), inputs.end(), [](const Linear& each) { return trains(each); });
}

// Whether attention and feed-forward read the same residual stream.
bool is_parallel(const DecoderLayer& layer) {
  return layer.residual == model::Residual::kParallelOneNorm ||
         layer.residual == model::Residual::kParallelTwoNorms;
}

at::Tensor taken_last(Tensors& tensors) {
  at::Tensor last = std::move(tensors.back());
  tensors.pop_back();
  return last;
}

Tensors with(Tensors first, Tensors&& more) {
  for (at::Tensor& each : more) first.push_back(std::move(each));
  return first;
}

// One forward pass of a layer, cut into parts. A part whose tensors are not kept runs as a
// checkpointed segment, unless the whole layer is a single segment.
class LayerPass {
 public:
  LayerPass(const DecoderLayer& layer, const Rotation& rotation, layout::SavedSet kept)
      : layer_(layer), rotation_(rotation), kept_(kept), whole_(!kept.has(Saved::kHeads)) {}

  at::Tensor operator()(const at::Tensor& x_BTD) const {
    const Segment run = [pass = *this](const Tensors& in, RecomputeTape& products) {
      return pass.feed_forward(pass.attended(in[0]), products);
    };
    return ended(part(whole_, run, {x_BTD}, trains(layer_)));
  }

 private:
  // Whether the part that computes `saved` runs as a segment of its own: `saved` is not kept, and
  // the layer is not one segment.
  bool repeats(Saved saved) const { return !whole_ && !kept_.has(saved); }

  // Runs a part as a recomputed segment if `again` is true. Otherwise runs the part directly, and
  // records its matrix products in `outer`, the tape of the enclosing segment.
  Tensors part(bool again, const Segment& run, const Tensors& in, RecomputeTape& outer) const {
    return again ? checkpoint(run, in, trains(layer_)) : run(in, outer);
  }
  // Overload for a part without an enclosing segment. `trained`: whether the part has trainable
  // parameters. Nothing is kept for backward if `trained` is false and no input needs a gradient.
  Tensors part(bool again, const Segment& run, const Tensors& in, bool trained) const {
    RecomputeTape none;
    return again ? checkpoint(run, in, trained) : run(in, none);
  }

  // The residual stream, and tensors computed from it.
  struct Stream {
    at::Tensor x_BTD;         // the layer's input
    at::Tensor normed_BTD;    // output of a parallel block's shared norm
    Tensors heads;            // result of Attention::finish
    at::Tensor attended_BTD;  // residual stream after attention
    at::Tensor inner_BTD;     // norm of attended_BTD; defined only if norm_follows_sum()
  };

  Stream projections(const at::Tensor& x_BTD) const {
    const Segment run = [&layer = layer_](const Tensors& in, RecomputeTape& products) {
      const at::Tensor normed_BTD = layer.input_norm(in[0]);
      Tensors out = layer.self_attn.inputs.products(normed_BTD, {Recompute::kOutputOnly}, products);
      if (layer.residual == model::Residual::kParallelOneNorm) out.push_back(normed_BTD);
      out.push_back(in[0]);
      return out;
    };
    Tensors out = part(repeats(Saved::kInputNorm), run, {x_BTD}, projections_train(layer_));
    Stream stream;
    stream.x_BTD = taken_last(out);
    if (layer_.residual == model::Residual::kParallelOneNorm) stream.normed_BTD = taken_last(out);
    stream.heads = layer_.self_attn.finish(out);
    return stream;
  }

  // Splits queries or keys into heads, normalises and rotates them. Backward repeats these steps
  // only if there is a norm whose output is not kept. Without a norm, repeating them would save no
  // memory, because a rotation does not save its input.
  at::Tensor placed(const at::Tensor& x_BTX, const Norm& norm) const {
    const Attention& attention = layer_.self_attn;
    if (!norm.weight || !repeats(Saved::kHeadNorms))
      return attention.norm_and_rope(x_BTX, norm, rotation_);
    const Segment run = [&attention, &norm, rotation = rotation_](const Tensors& in,
                                                                  RecomputeTape&) -> Tensors {
      return {attention.norm_and_rope(in[0], norm, rotation)};
    };
    return checkpoint(run, {x_BTX}, trains(norm))[0];
  }

  // Whether one launch on a GPU rotates both queries and keys. Otherwise queries and keys are
  // rotated one after the other: on the host, because that needs less memory, and on a GPU if the
  // norms of the heads are recomputed.
  bool rotates_both(const at::Tensor& q_BTX) const {
    const Attention& attention = layer_.self_attn;
    const bool normed = attention.q_norm.weight || attention.k_norm.weight;
    return rotation_.cos_TK.defined() && tensor::gpu_kernels(q_BTX) != nullptr &&
           !(normed && repeats(Saved::kHeadNorms));
  }

  // Returns the input of o_proj, computed from the result of Attention::finish.
  at::Tensor mixed(Tensors heads) const {
    const Attention& attention = layer_.self_attn;
    if (attention.latent) {
      const LatentHeads::Qkv made =
          attention.latent->make(heads[0], heads[1], heads[2], attention.head_dim, rotation_);
      heads.clear();
      return attention.attend(made.q_BHTK, made.k_BHTK, made.v_BHTV, rotation_);
    }
    at::Tensor q_BHTK, k_BGTK;
    if (rotates_both(heads[0])) {
      std::tie(q_BHTK, k_BGTK) =
          fused::rotate_both(unrotated_heads(attention, heads[0], attention.q_norm, rotation_),
                             unrotated_heads(attention, heads[1], attention.k_norm, rotation_),
                             rotation_.cos_TK, rotation_.sin_TK);
      q_BHTK = rotated_heads(attention, q_BHTK, attention.q_norm);
      k_BGTK = rotated_heads(attention, k_BGTK, attention.k_norm);
    } else {
      q_BHTK = placed(heads[0], attention.q_norm);
      k_BGTK = placed(heads[1], attention.k_norm);
    }
    return attention.attend(q_BHTK, k_BGTK, split_heads(heads[2], attention.head_dim), rotation_);
  }

  Stream attended(const at::Tensor& x_BTD) const {
    Stream stream = projections(x_BTD);
    at::Tensor mixed_BTX = mixed(std::exchange(stream.heads, {}));
    if (norm_follows_sum()) {
      at::Tensor branch_BTD =
          scaled(layer_, layer_.post_attention_norm(layer_.self_attn.o_proj(mixed_BTX)));
      mixed_BTX.reset();
      std::tie(stream.attended_BTD, stream.inner_BTD) =
          layer_.pre_feed_forward_norm.of_sum(stream.x_BTD, std::move(branch_BTD));
      return stream;
    }
    const Segment run = [&layer = layer_](const Tensors& in, RecomputeTape&) -> Tensors {
      return {in[0] + scaled(layer, layer.post_attention_norm(layer.self_attn.o_proj(in[1])))};
    };
    // A norm after o_proj would save o_proj's output, so o_proj and the norm run as one segment.
    const bool again = layer_.post_attention_norm.weight && repeats(Saved::kOtherNorms);
    const bool trained = trains(layer_.self_attn.o_proj) || trains(layer_.post_attention_norm);
    stream.attended_BTD = part(again, run, {stream.x_BTD, mixed_BTX}, trained)[0];
    return stream;
  }

  // Whether the feed-forward's segment begins at the residual stream instead of at the norm's
  // output: the norm's output is not kept, or the layer has no norm there and up is recomputed.
  bool feed_forward_from_sum() const {
    return repeats(Saved::kOtherNorms) ||
           (repeats(Saved::kUp) && !layer_.pre_feed_forward_norm.weight);
  }

  // Whether the sum after attention and the norm before the feed-forward are computed together
  // (Norm::of_sum).
  bool norm_follows_sum() const {
    return !is_parallel(layer_) && layer_.pre_feed_forward_norm.weight && !feed_forward_from_sum();
  }

  // Returns the residual stream to which the feed-forward's output is added, followed by the result
  // of inside(). If the norm after down_proj is recomputed in the same segment, returns only the
  // layer's output. `outer` is the tape of the enclosing segment.
  Tensors feed_forward(const Stream& stream, RecomputeTape& outer) const {
    if (layer_.residual == model::Residual::kParallelOneNorm) {
      return with({stream.attended_BTD},
                  inside(repeats(Saved::kUp), stream.normed_BTD, /*leaves=*/true, outer));
    }
    const bool parallel = layer_.residual == model::Residual::kParallelTwoNorms;
    const bool from_sum = feed_forward_from_sum();
    const bool from_norm = !from_sum && repeats(Saved::kUp);
    const bool norm_inside =
        layer_.post_feed_forward_norm.weight && (whole_ || repeats(Saved::kOtherNorms));
    const Segment run = [pass = *this, from_norm, norm_inside, inner_BTD = stream.inner_BTD](
                            const Tensors& in, RecomputeTape& products) -> Tensors {
      const at::Tensor x_BTD =
          inner_BTD.defined() ? inner_BTD : pass.layer_.pre_feed_forward_norm(in[0]);
      Tensors out = with({in[0]}, pass.inside(from_norm, x_BTD, !norm_inside, products));
      if (norm_inside) return {pass.ended(out)};
      return out;
    };
    Tensors out = part(from_sum, run, {parallel ? stream.x_BTD : stream.attended_BTD}, outer);
    if (parallel) out[0] = stream.attended_BTD;
    return out;
  }

  // Returns down_proj's product, or the input of ExpertFeedForward::finish. x_BTD is the input of
  // the feed-forward, after the norm. `again`: whether backward recomputes the feed-forward from
  // x_BTD.
  Tensors inside(bool again, const at::Tensor& x_BTD, bool leaves, RecomputeTape& outer) const {
    const Segment run = [&layer = layer_, keeps_gate = kept_.has(Saved::kGate), leaves](
                            const Tensors& in, RecomputeTape& products) -> Tensors {
      if (layer.experts) return layer.experts->product(in[0], keeps_gate, leaves, products);
      return {layer.mlp.product(in[0], keeps_gate, leaves, products)};
    };
    return part(again, run, {x_BTD}, outer);
  }

  // Returns the layer's output, computed from the result of feed_forward.
  at::Tensor ended(const Tensors& out) const {
    if (out.size() == 1) return out[0];
    const at::Tensor y_BTD =
        layer_.experts ? layer_.experts->finish({out.begin() + 1, out.end()}, out[0].size(1))
                       : layer_.mlp.down_proj.finish(out[1]);
    return out[0] + scaled(layer_, layer_.post_feed_forward_norm(y_BTD));
  }

  const DecoderLayer& layer_;
  Rotation rotation_;
  layout::SavedSet kept_;
  bool whole_;  // whether the whole layer is one segment
};

// Returns o_proj's output for the normalised x_BTD.
at::Tensor plain_attention(const Attention& attention, const at::Tensor& x_BTD,
                           const Rotation& rotation) {
  RecomputeTape products;
  const Tensors qkv =
      attention.finish(attention.inputs.products(x_BTD, {Recompute::kRecompute}, products));
  if (attention.latent) {
    const auto heads = attention.latent->make(qkv[0], qkv[1], qkv[2], attention.head_dim, rotation);
    return attention.o_proj(attention.attend(heads.q_BHTK, heads.k_BHTK, heads.v_BHTV, rotation));
  }
  return attention.o_proj(
      attention.attend(attention.norm_and_rope(qkv[0], attention.q_norm, rotation),
                       attention.norm_and_rope(qkv[1], attention.k_norm, rotation),
                       split_heads(qkv[2], attention.head_dim), rotation));
}

// Returns the output of the norm after down_proj, for the normalised x_BTD.
at::Tensor plain_feed_forward(const DecoderLayer& layer, const at::Tensor& x_BTD) {
  RecomputeTape products;
  if (layer.experts) {
    return layer.post_feed_forward_norm(
        layer.experts->finish(layer.experts->product(x_BTD, true, true, products), x_BTD.size(1)));
  }
  const FeedForward& mlp = layer.mlp;
  const Tensors wide =
      mlp.inputs.finish(mlp.inputs.products(x_BTD, {Recompute::kRecompute}, products));
  return layer.post_feed_forward_norm(
      mlp.down_proj(mlp.gated ? fused::gated(wide[0], wide[1], mlp.activation)
                              : fused::activated(wide[0], mlp.activation)));
}

}  // namespace

at::Tensor plain_layer(const DecoderLayer& layer, const at::Tensor& x_BTD,
                       const Rotation& rotation) {
  const at::Tensor normed_BTD = layer.input_norm(x_BTD);
  at::Tensor branch_BTD = scaled(
      layer, layer.post_attention_norm(plain_attention(layer.self_attn, normed_BTD, rotation)));
  if (!is_parallel(layer)) {
    const auto [h_BTD, inner_BTD] =
        layer.pre_feed_forward_norm.of_sum(x_BTD, std::move(branch_BTD));
    return h_BTD + scaled(layer, plain_feed_forward(layer, inner_BTD));
  }
  const at::Tensor h_BTD = x_BTD + branch_BTD;
  if (layer.residual == model::Residual::kParallelOneNorm) {
    return h_BTD + scaled(layer, plain_feed_forward(layer, normed_BTD));
  }
  const at::Tensor inner_BTD = layer.pre_feed_forward_norm(x_BTD);
  return h_BTD + scaled(layer, plain_feed_forward(layer, inner_BTD));
}

Tensors Attention::finish(const Tensors& products) const {
  const Tensors outputs = inputs.finish(products);
  if (by_key_head == 0) return outputs;
  const at::Tensor& fused = outputs[0];
  const at::Tensor groups_BTGRK =
      fused.view({fused.size(0), fused.size(1), -1, by_key_head + 2, head_dim});
  // Copies each output, because a view that is saved until backward would keep the whole fused
  // tensor alive.
  Tensors heads;
  for (const at::Tensor& part : groups_BTGRK.split_with_sizes({by_key_head, 1, 1}, 3)) {
    heads.push_back(part.contiguous().view({fused.size(0), fused.size(1), -1}));
  }
  return heads;
}

at::Tensor Attention::norm_and_rope(const at::Tensor& x_BTX, const Norm& norm,
                                    const Rotation& rotation) const {
  return rotated_heads(*this, rotate(unrotated_heads(*this, x_BTX, norm, rotation), rotation),
                       norm);
}

at::Tensor Attention::attend(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                             const at::Tensor& v_BGTV, const Rotation& rotation) const {
  const AttentionParams params = {.scale = scale,
                                  .softcap = softcap,
                                  .window = window,
                                  .slopes = slopes,
                                  .document_BT = rotation.document_BT,
                                  .document_starts = rotation.document_starts};
  std::optional<at::Tensor> sinks_H;
  if (sinks) sinks_H = sinks->value;
  const Qkv heads = {q_BHTK, k_BGTK, v_BGTV};
  const at::Tensor mixed_BHTV =
      core ? (*core)(heads, params, sinks_H) : attention(heads, params, sinks_H);
  return mixed_BHTV.transpose(1, 2).reshape(
      {q_BHTK.size(0), q_BHTK.size(2), q_BHTK.size(1) * v_BGTV.size(3)});
}

at::Tensor FeedForward::product(const at::Tensor& x_BTD, bool keeps_gate, bool leaves,
                                RecomputeTape& products) const {
  std::vector<Recompute> again = {Recompute::kRecompute};
  if (gated) again.insert(again.begin(), keeps_gate ? Recompute::kSave : Recompute::kRecompute);
  const Tensors wide = inputs.finish(inputs.products(x_BTD, again, products));
  if (!products.in_segment() && !down_proj.input && !down_proj.adapter) {
    const std::optional<at::Tensor> added = down_proj.added();
    const at::Tensor& weight = down_proj.weight->value;
    const fused::WeightForm form = down_proj.form();
    return gated ? fused::gated_linear(wide[0], wide[1], weight, added, activation, form)
                 : fused::activated_linear(wide[0], weight, added, activation, form);
  }
  const auto down = [this](const Tensors& in, Recompute kept, RecomputeTape& made) {
    const at::Tensor active_BTF =
        apply_transform(down_proj.input, gated ? fused::gated(in[0], in[1], activation)
                                               : fused::activated(in[0], activation));
    return made.multiply(down_proj, active_BTF, kept);
  };
  if (!products.in_segment() && down_proj.adapter) {
    // The gradient of the adapter's A reads the activation's output, which is recomputed instead of
    // kept.
    const Segment run = [down](const Tensors& in, RecomputeTape& made) -> Tensors {
      return {down(in, Recompute::kOutputOnly, made)};
    };
    return checkpoint(run, wide, trains(down_proj))[0];
  }
  return down(wide, leaves ? Recompute::kOutputOnly : Recompute::kRecompute, products);
}

std::vector<Linear*> DecoderLayer::linears() {
  std::vector<Linear*> all;
  for (Linear& each : self_attn.inputs.linears) all.push_back(&each);
  if (self_attn.latent && self_attn.latent->query_up) all.push_back(&*self_attn.latent->query_up);
  if (self_attn.latent) all.push_back(&self_attn.latent->key_value_up);
  all.push_back(&self_attn.o_proj);
  if (experts) {
    const std::vector<Linear*> of_experts = experts->linears();
    all.insert(all.end(), of_experts.begin(), of_experts.end());
    return all;
  }
  for (Linear& each : mlp.inputs.linears) all.push_back(&each);
  all.push_back(&mlp.down_proj);
  return all;
}

std::vector<const Linear*> DecoderLayer::linears() const {
  const auto all = const_cast<DecoderLayer*>(this)->linears();
  return {all.begin(), all.end()};
}

std::vector<const Norm*> DecoderLayer::norms() const {
  std::vector<const Norm*> all = {
      &input_norm,       &post_attention_norm, &pre_feed_forward_norm, &post_feed_forward_norm,
      &self_attn.q_norm, &self_attn.k_norm};
  if (self_attn.latent) {
    all.push_back(&self_attn.latent->query_norm);
    all.push_back(&self_attn.latent->key_value_norm);
  }
  return all;
}

at::Tensor DecoderLayer::operator()(const at::Tensor& x_BTD, const Rotation& rotation,
                                    layout::SavedSet kept) const {
  return LayerPass(*this, rotation, kept)(x_BTD);
}

}  // namespace am::nn
