#include "am/nn/build.h"

#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::nn {
namespace {

using model::Role;

ParameterPtr parameter(const std::string& name, const ParametersByName& parameters) {
  const auto found = parameters.find(name);
  AM_ASSERT(found != parameters.end(), cat("the inventory lacks ", name));
  return found->second;
}

class LayerBuilder {
 public:
  LayerBuilder(const model::LayerSpec& layer, const std::string& prefix,
               const ParametersByName& parameters)
      : layer_(layer), prefix_(prefix), parameters_(parameters) {}

  Linear linear(Role role) const { return build_linear(module(role), prefix_, parameters_); }
  // The identity where the layer has none.
  Norm norm(Role role) const {
    return layer_.has(role) ? build_norm(module(role), prefix_, parameters_) : Norm();
  }

 private:
  const model::ModuleSpec& module(Role role) const {
    const model::ModuleSpec* module = layer_.find(role);
    AM_ASSERT(module != nullptr, cat("a layer of ", prefix_, " lacks a module"));
    return *module;
  }

  const model::LayerSpec& layer_;
  const std::string& prefix_;
  const ParametersByName& parameters_;
};

}  // namespace

Linear build_linear(const model::ModuleSpec& module, const std::string& prefix,
                    const ParametersByName& parameters) {
  Linear linear;
  linear.name = prefix + module.name;
  linear.weight = parameter(linear.name + ".weight", parameters);
  if (module.bias) linear.bias = parameter(linear.name + ".bias", parameters);
  return linear;
}

Norm build_norm(const model::ModuleSpec& module, const std::string& prefix,
                const ParametersByName& parameters) {
  std::string name = prefix + module.name;
  ParameterPtr weight = parameter(name + ".weight", parameters);
  return {std::move(name), std::move(weight), module.eps, module.norm};
}

DecoderLayer build_layer(const model::LayerSpec& spec, const std::string& prefix,
                         const ParametersByName& parameters) {
  const LayerBuilder build(spec, prefix, parameters);
  DecoderLayer layer;
  layer.input_norm = build.norm(Role::kInputNorm);
  layer.post_attention_norm = build.norm(Role::kPostAttentionNorm);
  layer.pre_feed_forward_norm = build.norm(Role::kPreFeedForwardNorm);
  layer.post_feed_forward_norm = build.norm(Role::kPostFeedForwardNorm);
  Attention& attention = layer.self_attn;
  attention.q_proj = build.linear(Role::kQuery);
  attention.k_proj = build.linear(Role::kKey);
  attention.v_proj = build.linear(Role::kValue);
  attention.o_proj = build.linear(Role::kAttentionOut);
  attention.q_norm = build.norm(Role::kQueryNorm);
  attention.k_norm = build.norm(Role::kKeyNorm);
  attention.norms_span_heads = spec.attention.norms_span_heads;
  attention.head_dim = spec.attention.qk_width;
  attention.scale = spec.attention.scale;
  attention.softcap = spec.attention.softcap;
  attention.window = spec.attention.window.value_or(0);
  attention.rope = spec.attention.rope;
  layer.mlp.gate_proj = build.linear(Role::kGate);
  layer.mlp.up_proj = build.linear(Role::kUp);
  layer.mlp.down_proj = build.linear(Role::kDown);
  layer.mlp.activation = spec.activation;
  return layer;
}

std::vector<Linear*> linears_of(DecoderLayer& layer) {
  Attention& attention = layer.self_attn;
  FeedForward& mlp = layer.mlp;
  return {&attention.q_proj, &attention.k_proj, &attention.v_proj, &attention.o_proj,
          &mlp.gate_proj,    &mlp.up_proj,      &mlp.down_proj};
}

}  // namespace am::nn
