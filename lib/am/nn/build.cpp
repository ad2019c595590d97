#include "am/nn/build.h"

#include <initializer_list>
#include <string>
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
  // Returns one linear layer for each of `roles` that the decoder layer has.
  Projections projections(std::initializer_list<Role> roles) const {
    Projections all;
    for (const Role role : roles) {
      if (layer_.has(role)) all.linears.push_back(linear(role));
    }
    return all;
  }
  LatentHeads latent_heads(const model::AttentionSpec& attention) const {
    LatentHeads heads;
    heads.query_norm = norm(Role::kQueryDownNorm);
    heads.key_value_norm = norm(Role::kKeyValueDownNorm);
    if (layer_.has(Role::kQueryUp)) heads.query_up = linear(Role::kQueryUp);
    heads.key_value_up = linear(Role::kKeyValueUp);
    heads.rotated = attention.rotated;
    heads.value_width = attention.v_width;
    heads.interleaved = attention.interleaved;
    return heads;
  }
  // Returns the single parameter of this role's module, whose name ends with ModuleSpec::leaf. Null
  // if the layer has no module of this role.
  ParameterPtr vector(Role role) const {
    const model::ModuleSpec* found = layer_.find(role);
    if (found == nullptr) return nullptr;
    return parameter(cat(prefix_, found->name, ".", found->leaf), parameters_);
  }
  ExpertFeedForward experts() const {
    ExpertFeedForward all;
    all.router = {linear(Role::kRouter), *layer_.router};
    all.router.correction = vector(Role::kRouterCorrection);
    all.activation = layer_.activation;
    if (layer_.has(Role::kExpertGateUp)) {
      all.stacked = StackedExperts{linear(Role::kExpertGateUp),
                                   linear(Role::kExpertDown),
                                   {layer_.activation_alpha, layer_.activation_limit},
                                   layer_.activation};
      return all;
    }
    for (int64_t i = 0; i < layer_.router->experts; ++i) {
      all.experts.push_back({expert_linear(Role::kExpertGate, i), expert_linear(Role::kExpertUp, i),
                             expert_linear(Role::kExpertDown, i)});
    }
    if (layer_.has(Role::kSharedDown)) {
      all.shared =
          Expert{linear(Role::kSharedGate), linear(Role::kSharedUp), linear(Role::kSharedDown)};
    }
    if (layer_.has(Role::kSharedWeigher)) all.shared_weigher = linear(Role::kSharedWeigher);
    return all;
  }
  // Returns the norm of this role, or the identity if the layer has no module of this role.
  Norm norm(Role role) const {
    return layer_.has(role) ? build_norm(module(role), prefix_, parameters_) : Norm();
  }

 private:
  Linear expert_linear(Role role, int64_t expert) const {
    model::ModuleSpec one = module(role);
    one.name.replace(one.name.find('*'), 1, std::to_string(expert));
    return build_linear(one, prefix_, parameters_);
  }

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
  if (module.leaf == "weight") {
    linear.weight = parameter(linear.name + ".weight", parameters);
    if (module.bias) linear.bias = parameter(linear.name + ".bias", parameters);
  } else {  // the module has several matrices, each under a name of its own
    linear.name = cat(linear.name, ".", module.leaf);
    linear.weight = parameter(linear.name, parameters);
    if (module.bias) linear.bias = parameter(linear.name + "_bias", parameters);
  }
  linear.in_out = module.in_out;
  linear.fp8_allowed = model::multiplies_in_fp8(module);
  if (module.adapter) {
    linear.adapter = {parameter(linear.name + ".lora_A.weight", parameters),
                      parameter(linear.name + ".lora_B.weight", parameters), module.adapter->scale};
    if (module.adapter->dora) {
      linear.adapter->magnitude = parameter(linear.name + ".lora_magnitude_vector", parameters);
    }
  }
  for (const model::Slice& slice : module.slices) linear.slices.push_back(slice.length);
  return linear;
}

Norm build_norm(const model::ModuleSpec& module, const std::string& prefix,
                const ParametersByName& parameters) {
  std::string name = prefix + module.name;
  ParameterPtr weight = parameter(name + ".weight", parameters);
  ParameterPtr bias = module.bias ? parameter(name + ".bias", parameters) : nullptr;
  return {std::move(name), std::move(weight), module.eps, module.norm, std::move(bias)};
}

DecoderLayer build_layer(const model::LayerSpec& spec, const std::string& prefix,
                         const ParametersByName& parameters) {
  const LayerBuilder build(spec, prefix, parameters);
  DecoderLayer layer;
  layer.residual = spec.residual;
  layer.residual_scale = spec.residual_scale;
  layer.input_norm = build.norm(Role::kInputNorm);
  layer.post_attention_norm = build.norm(Role::kPostAttentionNorm);
  layer.pre_feed_forward_norm = build.norm(Role::kPreFeedForwardNorm);
  layer.post_feed_forward_norm = build.norm(Role::kPostFeedForwardNorm);
  Attention& attention = layer.self_attn;
  attention.inputs = build.projections(
      {Role::kQuery, Role::kQueryDown, Role::kKey, Role::kValue, Role::kKeyValueDown, Role::kQkv});
  if (spec.attention.latent) attention.latent = build.latent_heads(spec.attention);
  attention.o_proj = build.linear(Role::kAttentionOut);
  attention.q_norm = build.norm(Role::kQueryNorm);
  attention.k_norm = build.norm(Role::kKeyNorm);
  if (spec.attention.fused == model::AttentionSpec::Fused::kByKeyHead) {
    attention.by_key_head = spec.attention.heads / spec.attention.key_heads;
  }
  attention.norms_span_heads = spec.attention.norms_span_heads;
  attention.norms_follow_rope = spec.attention.norms_follow_rope;
  attention.head_dim = spec.attention.qk_width;
  attention.scale = spec.attention.scale;
  attention.softcap = spec.attention.softcap;
  attention.window = spec.attention.window.value_or(0);
  attention.rope = spec.attention.rope;
  attention.interleaved = spec.attention.interleaved;
  if (spec.attention.alibi) {
    attention.slopes = model::alibi_slopes(spec.attention.heads, *spec.attention.alibi);
  }
  attention.sinks = build.vector(Role::kSinks);
  if (spec.router) {
    layer.experts = build.experts();
    return layer;
  }
  layer.mlp.inputs = build.projections({Role::kGate, Role::kUp, Role::kGateUp});
  layer.mlp.gated = spec.gated;
  layer.mlp.down_proj = build.linear(Role::kDown);
  layer.mlp.activation = spec.activation;
  return layer;
}

}  // namespace am::nn
