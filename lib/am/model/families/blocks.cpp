#include "am/model/families/blocks.h"

#include <cmath>
#include <utility>

#include "am/base/text.h"
#include "am/model/family.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

// Epsilon of the norms over the low-rank vectors of latent attention, for which configs have no
// key.
constexpr double kLatentNormEps = 1e-6;

// Properties of a module that follow from its role alone.
struct RoleTraits {
  ModuleKind kind;
  Space from;
  Space to;
};

RoleTraits traits_of(Role role) {
  using enum Role;
  using enum Space;
  constexpr ModuleKind kDense = ModuleKind::kLinear;
  switch (role) {
    case kEmbedding:
    case kPositions:
      return {ModuleKind::kEmbedding, kIds, kHidden};
    case kEmbeddingNorm:
    case kFinalNorm:
    case kInputNorm:
    case kPostAttentionNorm:
    case kPreFeedForwardNorm:
    case kPostFeedForwardNorm:
      return {ModuleKind::kNorm, kHidden, kHidden};
    case kHead:
      return {kDense, kHidden, kVocabulary};
    case kQuery:
    case kQkv:
      return {kDense, kHidden, kHeads};
    case kKey:
    case kValue:
      return {kDense, kHidden, kKeyHeads};
    case kQueryDown:
    case kKeyValueDown:
      return {kDense, kHidden, kLatent};
    case kQueryDownNorm:
    case kKeyValueDownNorm:
      return {ModuleKind::kNorm, kLatent, kLatent};
    case kQueryUp:
    case kKeyValueUp:
      return {kDense, kLatent, kHeads};
    case kQueryNorm:
      return {ModuleKind::kNorm, kHeads, kHeads};
    case kKeyNorm:
      return {ModuleKind::kNorm, kKeyHeads, kKeyHeads};
    case kSinks:
      return {ModuleKind::kHeadVector, kHeads, kHeads};
    case kAttentionOut:
      return {kDense, kHeads, kHidden};
    case kGate:
    case kUp:
    case kGateUp:
    case kSharedGate:
    case kSharedUp:
      return {kDense, kHidden, kWide};
    case kDown:
    case kSharedDown:
      return {kDense, kWide, kHidden};
    case kRouter:
    case kRouterCorrection:
    case kSharedWeigher:
      return {ModuleKind::kRouter, kHidden, kScores};
    case kExpertGate:
    case kExpertUp:
    case kExpertGateUp:
      return {ModuleKind::kExpert, kRouted, kWide};
    case kExpertDown:
      return {ModuleKind::kExpert, kWide, kRouted};
    case kOther:
      return {kDense, kWide, kWide};
  }
  return {kDense, kHidden, kHidden};
}

Activation activation_of(const std::string& name) {
  if (name == "silu") return Activation::kSilu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (name == "gelu") return Activation::kGeluErf;
  if (name == "relu") return Activation::kRelu;
  if (name == "relu2") return Activation::kRelu2;
  return Activation::kOther;
}

AttentionSpec attention_of(const ModelConfig& config, int64_t layer) {
  AttentionSpec attention;
  attention.heads = config.num_attention_heads;
  attention.key_heads = config.num_key_value_heads;
  attention.qk_width = config.head_dim;
  attention.v_width = config.value_width > 0 ? config.value_width : config.head_dim;
  attention.window = window_of(config, layer);
  const double scalar = config.query_scalar.value_or(static_cast<double>(config.head_dim));
  attention.scale = config.attention_scale.value_or(1.0 / std::sqrt(scalar));
  attention.softcap = config.attention_softcap;
  attention.alibi = config.alibi;
  const auto at = static_cast<size_t>(layer);
  const bool rotates = at >= config.rotated_layers.size() || config.rotated_layers[at];
  attention.rope = rotates ? 0 : -1;
  if (rotates && attention.window.has_value() && config.local_rope.has_value()) {
    attention.rope = 1;
  }
  attention.interleaved = rotates && config.rope_interleaved;
  if (rotates) {
    attention.rotated = family_of(config).rotates_part ? rotated_width(config.rope, config.head_dim)
                                                       : config.head_dim;
  }
  return attention;
}

// Adds gate, up and down projections; without a gate if the layer's feed-forward has none.
void add_gated(const GatedNames& names, std::array<Role, 3> roles, std::string_view prefix,
               int64_t width, int64_t hidden, bool bias, LayerSpec& layer) {
  if (layer.gated) {
    layer.modules.push_back(matrix(roles[0], cat(prefix, ".", names.gate), width, hidden, bias));
  }
  layer.modules.push_back(matrix(roles[1], cat(prefix, ".", names.up), width, hidden, bias));
  layer.modules.push_back(matrix(roles[2], cat(prefix, ".", names.down), hidden, width, bias));
}

}  // namespace

ModuleSpec matrix(Role role, std::string_view name, int64_t out, int64_t in, bool bias) {
  const RoleTraits traits = traits_of(role);
  ModuleSpec module;
  module.role = role;
  module.name = name;
  module.kind = traits.kind;
  module.out = out;
  module.in = in;
  module.bias = bias;
  module.from = traits.from;
  module.to = traits.to;
  return module;
}

ModuleSpec conv1d(ModuleSpec module) {
  module.in_out = true;
  return module;
}

ModuleSpec vector(Role role, std::string_view name, std::string_view leaf, int64_t size,
                  Init init) {
  ModuleSpec module = matrix(role, name, size, 0);
  module.leaf = leaf;
  module.init = init;
  return module;
}

ModuleSpec stacked_experts(const ModelConfig& config, Role role, std::string_view name, int64_t out,
                           int64_t in) {
  ModuleSpec module = matrix(role, name, out, in);
  module.copies = config.moe->experts;
  module.stacked = true;
  return module;
}

ModuleSpec other(std::string_view name, int64_t out, int64_t in, bool bias) {
  return matrix(Role::kOther, name, out, in, bias);
}

ModuleSpec other_vector(std::string_view name, int64_t size, std::string_view leaf) {
  return vector(Role::kOther, name, leaf, size, Init::kOnes);
}

ModuleSpec cut_by_rows(ModuleSpec module, std::initializer_list<int64_t> slices) {
  module.other_cut = OtherCut::kRows;
  for (const int64_t length : slices) module.slices.push_back({Role::kOther, length});
  return module;
}

void add_convolution(LayerSpec& layer, std::string_view name, int64_t channels, int64_t width,
                     bool bias) {
  ModuleSpec module = other(name, 1, width);
  module.copies = channels;
  module.stacked = true;
  layer.modules.push_back(std::move(module));
  if (bias) layer.modules.push_back(other_vector(name, channels, "bias"));
}

ModuleSpec norm(const ModelConfig& config, Role role, std::string_view name, int64_t size) {
  ModuleSpec module = matrix(role, name, size, 0, config.norm_bias);
  module.norm = family_of(config).norm;
  module.stored = family_of(config).norm_weights;
  module.eps = config.rms_norm_eps;
  module.init = module.norm == NormKind::kRmsPlusOne ? Init::kZeros : Init::kOnes;
  return module;
}

std::vector<ModuleSpec> modules_before_layers(const ModelConfig& config, const ModuleNames& names) {
  const int64_t hidden = config.hidden_size;
  std::vector<ModuleSpec> modules = {
      matrix(Role::kEmbedding, names.embedding, config.vocab_size, hidden)};
  if (!names.positions.empty()) {
    modules.push_back(matrix(Role::kPositions, names.positions,
                             config.max_position_embeddings + family_of(config).positions_offset,
                             hidden));
  }
  if (!names.embedding_norm.empty()) {
    modules.push_back(norm(config, Role::kEmbeddingNorm, names.embedding_norm, hidden));
  }
  return modules;
}

std::vector<ModuleSpec> modules_after_layers(const ModelConfig& config, const ModuleNames& names) {
  ModuleSpec head =
      matrix(Role::kHead, names.head, config.vocab_size, config.hidden_size, config.head_bias);
  head.stored = !config.tie_word_embeddings;
  if (names.norm.empty()) return {std::move(head)};
  return {norm(config, Role::kFinalNorm, names.norm, config.hidden_size), std::move(head)};
}

LayerSpec start_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec;
  spec.attention = attention_of(config, layer);
  spec.activation = activation_of(config.hidden_act);
  spec.gated = config.gated_mlp;
  spec.residual_scale = config.residual_scale;
  if (has_experts(config, layer)) {
    const MoeConfig& moe = *config.moe;
    spec.router = {.experts = moe.experts,
                   .top_k = moe.experts_per_token,
                   .groups = moe.groups,
                   .topk_groups = moe.topk_groups,
                   .normalise = moe.normalise,
                   .scale = moe.scale};
  }
  return spec;
}

void add_attention(const ModelConfig& config, LayerSpec& layer, const AttentionNames& names) {
  const int64_t hidden = config.hidden_size;
  const AttentionSpec& attention = layer.attention;
  const int64_t query = attention.heads * attention.qk_width;
  const int64_t key = attention.key_heads * attention.qk_width;
  const auto project = [&](Role role, std::string_view name, int64_t heads, int64_t width) {
    layer.modules.push_back(matrix(role, name, heads * width, hidden, config.qkv_bias));
    layer.modules.back().grain = width;
  };
  project(Role::kQuery, names.query, attention.heads, attention.qk_width);
  project(Role::kKey, names.key, attention.key_heads, attention.qk_width);
  project(Role::kValue, names.value, attention.key_heads, attention.v_width);
  layer.modules.push_back(matrix(Role::kAttentionOut, names.output, hidden,
                                 attention.heads * attention.v_width, config.o_bias));
  if (!config.qk_norm) return;
  const bool wide = layer.attention.norms_span_heads = config.qk_norm_spans_heads;
  layer.attention.norms_follow_rope = config.qk_norm_follows_rope;
  layer.modules.push_back(
      norm(config, Role::kQueryNorm, names.query_norm, wide ? query : config.head_dim));
  layer.modules.push_back(
      norm(config, Role::kKeyNorm, names.key_norm, wide ? key : config.head_dim));
}

ModuleSpec fused_attention(const ModelConfig& config, std::string_view name,
                           AttentionSpec::Fused fused, LayerSpec& layer) {
  layer.attention.fused = fused;
  const int64_t query = config.num_attention_heads * config.head_dim;
  const int64_t key_value = config.num_key_value_heads * config.head_dim;
  ModuleSpec module =
      matrix(Role::kQkv, name, query + 2 * key_value, config.hidden_size, config.qkv_bias);
  if (fused == AttentionSpec::Fused::kConcatenated) {
    module.slices = {{Role::kQuery, query}, {Role::kKey, key_value}, {Role::kValue, key_value}};
    module.grain = config.head_dim;
  } else {
    // A tp shard boundary must not separate a key head from its query heads and its value head.
    module.grain = module.out / config.num_key_value_heads;
  }
  return module;
}

void add_latent_attention(const ModelConfig& config, LayerSpec& layer) {
  const MlaConfig& mla = *config.mla;
  const int64_t hidden = config.hidden_size;
  const int64_t heads = config.num_attention_heads;
  AttentionSpec& attention = layer.attention;
  attention.latent = true;
  attention.key_heads = heads;
  // qk_head_dim() equals config.head_dim, from which start_layer() computed the scale of the
  // attention scores.
  attention.qk_width = mla.qk_head_dim();
  attention.v_width = mla.v_head_dim;
  attention.rotated = mla.qk_rope_head_dim;
  attention.interleaved = mla.interleaved;
  if (config.rope.mscale_all_dim != 0.0) {
    const double mscale = yarn_mscale(config.rope.factor, config.rope.mscale_all_dim);
    attention.scale *= mscale * mscale;
  }
  std::vector<ModuleSpec>& modules = layer.modules;
  if (mla.q_lora_rank == 0) {
    modules.push_back(matrix(Role::kQuery, "self_attn.q_proj", heads * mla.qk_head_dim(), hidden));
  } else {
    modules.push_back(
        matrix(Role::kQueryDown, "self_attn.q_a_proj", mla.q_lora_rank, hidden, config.o_bias));
    modules.push_back(
        norm(config, Role::kQueryDownNorm, "self_attn.q_a_layernorm", mla.q_lora_rank));
    modules.back().eps = kLatentNormEps;
    modules.push_back(
        matrix(Role::kQueryUp, "self_attn.q_b_proj", heads * mla.qk_head_dim(), mla.q_lora_rank));
  }
  modules.back().grain = mla.qk_head_dim();
  modules.push_back(matrix(Role::kKeyValueDown, "self_attn.kv_a_proj_with_mqa",
                           mla.kv_lora_rank + mla.qk_rope_head_dim, hidden, config.o_bias));
  modules.back().slices = {{Role::kKeyValueDown, mla.kv_lora_rank},
                           {Role::kKey, mla.qk_rope_head_dim}};
  modules.push_back(
      norm(config, Role::kKeyValueDownNorm, "self_attn.kv_a_layernorm", mla.kv_lora_rank));
  modules.back().eps = kLatentNormEps;
  const int64_t of_head = mla.qk_nope_head_dim + mla.v_head_dim;
  modules.push_back(
      matrix(Role::kKeyValueUp, "self_attn.kv_b_proj", heads * of_head, mla.kv_lora_rank));
  modules.back().grain = of_head;
  modules.push_back(matrix(Role::kAttentionOut, "self_attn.o_proj", hidden, heads * mla.v_head_dim,
                           config.o_bias));
}

void add_gated_mlp(const ModelConfig& config, LayerSpec& layer, std::string_view name,
                   const GatedNames& names) {
  add_gated(names, {Role::kGate, Role::kUp, Role::kDown}, name, config.intermediate_size,
            config.hidden_size, config.mlp_bias, layer);
}

void add_fused_mlp(const ModelConfig& config, LayerSpec& layer, std::string_view gate_up,
                   std::string_view down) {
  const int64_t hidden = config.hidden_size, width = config.intermediate_size;
  layer.modules.push_back(matrix(Role::kGateUp, gate_up, 2 * width, hidden, config.mlp_bias));
  layer.modules.back().slices = {{Role::kGate, width}, {Role::kUp, width}};
  layer.modules.push_back(matrix(Role::kDown, down, hidden, width, config.mlp_bias));
}

void add_plain_mlp(const ModelConfig& config, LayerSpec& layer, std::string_view up,
                   std::string_view down) {
  const int64_t width = config.intermediate_size;
  layer.modules.push_back(matrix(Role::kUp, up, width, config.hidden_size, config.mlp_bias));
  layer.modules.push_back(matrix(Role::kDown, down, config.hidden_size, width, config.mlp_bias));
}

void add_router(const ModelConfig& config, LayerSpec& layer, std::string_view name, bool bias) {
  layer.modules.push_back(
      matrix(Role::kRouter, name, config.moe->experts, config.hidden_size, bias));
}

void add_experts(const ModelConfig& config, LayerSpec& layer, std::string_view name,
                 const GatedNames& names) {
  const size_t first = layer.modules.size();
  add_gated(names, {Role::kExpertGate, Role::kExpertUp, Role::kExpertDown}, cat(name, ".*"),
            config.moe->expert_width,
            config.moe->latent_width > 0 ? config.moe->latent_width : config.hidden_size, false,
            layer);
  for (size_t i = first; i < layer.modules.size(); ++i) {
    layer.modules[i].copies = config.moe->experts;
  }
}

void add_mixtral_experts(const ModelConfig& config, LayerSpec& layer) {
  add_router(config, layer, "block_sparse_moe.gate");
  add_experts(config, layer, "block_sparse_moe.experts", {.gate = "w1", .up = "w3", .down = "w2"});
}

void add_shared_experts(const ModelConfig& config, LayerSpec& layer, std::string_view name) {
  add_gated({}, {Role::kSharedGate, Role::kSharedUp, Role::kSharedDown}, name,
            config.moe->shared_width, config.hidden_size, config.mlp_bias, layer);
}

void add_fused_shared_experts(const ModelConfig& config, LayerSpec& layer, std::string_view gate_up,
                              std::string_view down) {
  const int64_t hidden = config.hidden_size, width = config.moe->shared_width;
  layer.modules.push_back(matrix(Role::kSharedUp, gate_up, 2 * width, hidden));
  layer.modules.back().slices = {{Role::kSharedGate, width}, {Role::kSharedUp, width}};
  layer.modules.push_back(matrix(Role::kSharedDown, down, hidden, width));
}

void add_norms(const ModelConfig& config, LayerSpec& layer, std::span<const NamedNorm> norms) {
  for (const NamedNorm& each : norms) {
    layer.modules.push_back(norm(config, each.role, each.name, config.hidden_size));
  }
}

LayerSpec llama_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_gated_mlp(config, spec);
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

LayerSpec plain_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_plain_mlp(config, spec, "mlp.up_proj", "mlp.down_proj");
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

LayerSpec parallel_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 1> kNorms = {{{Role::kInputNorm, "input_layernorm"}}};
  LayerSpec spec = start_layer(config, layer);
  spec.residual = Residual::kParallelOneNorm;
  add_attention(config, spec);
  add_gated_mlp(config, spec);
  add_norms(config, spec, kNorms);
  return spec;
}

LayerSpec post_norm_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  spec.residual = Residual::kPostNorm;
  add_attention(config, spec);
  add_gated_mlp(config, spec);
  add_norms(config, spec, kPostNorms);
  return spec;
}

LayerSpec opt_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 1> kFirst = {{{Role::kInputNorm, "self_attn_layer_norm"}}};
  constexpr std::array<NamedNorm, 1> kSecond = {{{Role::kPreFeedForwardNorm, "final_layer_norm"}}};
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec, {.output = "self_attn.out_proj"});
  add_norms(config, spec, kFirst);
  add_plain_mlp(config, spec, "fc1", "fc2");
  add_norms(config, spec, kSecond);
  return spec;
}

LayerSpec expert_layer(const ModelConfig& config, int64_t layer) {
  if (!has_experts(config, layer)) return llama_layer(config, layer);
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_router(config, spec, "mlp.gate");
  add_experts(config, spec, "mlp.experts");
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

LayerSpec sandwich_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  spec.residual = Residual::kSandwich;
  add_attention(config, spec);
  add_gated_mlp(config, spec);
  add_norms(config, spec, kSandwichNorms);
  return spec;
}

LayerSpec mixtral_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_mixtral_experts(config, spec);
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace am::model
