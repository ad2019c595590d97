#include "am/nn/checkpointed_layer.h"

#include <ATen/ATen.h>

#include "am/nn/checkpoint.h"
#include "am/nn/fused/swiglu.h"

namespace am::nn {

namespace {

bool trains(const Linear& linear) {
  return linear.weight->value.requires_grad() ||
         (linear.bias && linear.bias->value.requires_grad());
}

bool trains(const RMSNorm& norm) { return norm.weight && norm.weight->value.requires_grad(); }

// Behind frozen layers a layer's input needs no gradient, and its parameters do.
bool trains(const DecoderLayer& layer) {
  const Attention& attention = layer.self_attn;
  const FeedForward& mlp = layer.mlp;
  return trains(layer.input_layernorm) || trains(layer.post_attention_layernorm) ||
         trains(attention.q_proj) || trains(attention.k_proj) || trains(attention.v_proj) ||
         trains(attention.o_proj) || trains(attention.q_norm) || trains(attention.k_norm) ||
         trains(mlp.gate_proj) || trains(mlp.up_proj) || trains(mlp.down_proj);
}

// The residual sum goes through the segment (it returns its input), so that the input's gradients
// join in the order of the layer without checkpointing.
at::Tensor checkpointed_feed_forward(const DecoderLayer& layer, const at::Tensor& attended_BTD) {
  const Tensors out = checkpoint(
      [&layer](const Tensors& in, Products& products) -> Tensors {
        const FeedForward& mlp = layer.mlp;
        const auto inputs =
            fan_out(layer.post_attention_layernorm(in[0]), {&mlp.gate_proj, &mlp.up_proj});
        const at::Tensor gate = mlp.gate_proj.finish(products.kept(mlp.gate_proj, inputs[0]));
        const at::Tensor wide = fused::swiglu(gate, mlp.up_proj.apply_to(inputs[1]));
        const at::Tensor entering = apply_transform(mlp.down_proj.input, wide);
        return {in[0], products.returned(mlp.down_proj, entering)};
      },
      {attended_BTD}, trains(layer));
  return out[0] + layer.mlp.down_proj.finish(out[1]);
}

// {x_BTD, q_BTX, k_BTX, v_BTX}: the products' inputs are computed again, the products are not.
Tensors checkpointed_projections(const DecoderLayer& layer, const at::Tensor& x_BTD) {
  const Attention& attention = layer.self_attn;
  Tensors out = checkpoint(
      [&layer, &attention](const Tensors& in, Products& products) -> Tensors {
        const auto inputs = fan_out(layer.input_layernorm(in[0]),
                                    {&attention.q_proj, &attention.k_proj, &attention.v_proj});
        return {in[0], products.returned(attention.q_proj, inputs[0]),
                products.returned(attention.k_proj, inputs[1]),
                products.returned(attention.v_proj, inputs[2])};
      },
      {x_BTD}, trains(layer));
  out[1] = attention.q_proj.finish(out[1]);
  out[2] = attention.k_proj.finish(out[2]);
  out[3] = attention.v_proj.finish(out[3]);
  return out;
}

// A rotation alone saves nothing of its input; a norm before it does.
at::Tensor checkpointed_place(const Attention& attention, const at::Tensor& x_BTX,
                              const RMSNorm& norm, const Rotation& rotation) {
  if (!norm.weight) return attention.place(x_BTX, norm, rotation);
  return checkpoint(
      [&attention, &norm, rotation](const Tensors& in, Products&) -> Tensors {
        return {attention.place(in[0], norm, rotation)};
      },
      {x_BTX}, trains(norm))[0];
}

}  // namespace

at::Tensor fully_checkpointed(const DecoderLayer& layer, const at::Tensor& x_BTD,
                              const Rotation& rotation) {
  const Tensors out = checkpoint(
      [&layer, rotation](const Tensors& in, Products& products) -> Tensors {
        const FeedForward& mlp = layer.mlp;
        const at::Tensor attended_BTD =
            in[0] + layer.self_attn(layer.input_layernorm(in[0]), rotation);
        const at::Tensor wide = mlp.activation(layer.post_attention_layernorm(attended_BTD));
        const at::Tensor entering = apply_transform(mlp.down_proj.input, wide);
        return {attended_BTD, products.returned(mlp.down_proj, entering)};
      },
      {x_BTD}, trains(layer));
  return out[0] + layer.mlp.down_proj.finish(out[1]);
}

at::Tensor mlp_checkpointed(const DecoderLayer& layer, const at::Tensor& x_BTD,
                            const Rotation& rotation) {
  const at::Tensor attended_BTD = x_BTD + layer.self_attn(layer.input_layernorm(x_BTD), rotation);
  const Tensors out = checkpoint(
      [&layer](const Tensors& in, Products& products) -> Tensors {
        const at::Tensor entering =
            apply_transform(layer.mlp.down_proj.input, layer.mlp.activation(in[0]));
        return {products.returned(layer.mlp.down_proj, entering)};
      },
      {layer.post_attention_layernorm(attended_BTD)}, trains(layer));
  return attended_BTD + layer.mlp.down_proj.finish(out[0]);
}

at::Tensor selectively_checkpointed(const DecoderLayer& layer, const at::Tensor& x_BTD,
                                    const Rotation& rotation) {
  const Attention& attention = layer.self_attn;
  const Tensors projected = checkpointed_projections(layer, x_BTD);
  const at::Tensor q_BHTK = checkpointed_place(attention, projected[1], attention.q_norm, rotation);
  const at::Tensor k_BGTK = checkpointed_place(attention, projected[2], attention.k_norm, rotation);
  const at::Tensor mixed_BTX = attention.mix(q_BHTK, k_BGTK, projected[3], rotation);
  return checkpointed_feed_forward(layer, projected[0] + attention.o_proj(mixed_BTX));
}

}  // namespace am::nn
