// GPT-J and CodeGen: attention and an MLP without a gate, in parallel after one LayerNorm. RoPE
// rotates a part of each head. The MLP has biases, attention has none.
#include <algorithm>

#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/gpt.h"

namespace am::model {
namespace {

constexpr int64_t kRotated = 64;
constexpr int64_t kGroups = 4;

// Reads the keys of GPT-J. rotary_dim is the rotated width of a head: from 2 to head_dim; null
// means the whole head.
void read_config(ConfigReader& reader, ModelConfig& config) {
  config.mlp_bias = config.norm_bias = config.head_bias = true;
  config.gated_mlp = false;
  config.parallel_block = true;
  config.hidden_norms = 1;
  config.rope_interleaved = true;
  const int64_t rotated = reader.has("rotary_dim")
                              ? read_rotary_dim(reader, config).value_or(config.head_dim)
                              : std::min(kRotated, config.head_dim);
  if (config.head_dim > 0) {
    config.rope.rotated_part = static_cast<double>(rotated) / static_cast<double>(config.head_dim);
  }
}

// Reads the keys of CodeGen, whose matrix of queries, keys and values has four groups of heads.
void read_codegen(ConfigReader& reader, ModelConfig& config) {
  read_config(reader, config);
  if (config.num_attention_heads % kGroups == 0) return;
  reader.error(
      "model.heads", "n_head",
      cat("CodeGen's heads form ", kGroups, " groups, but n_head = ", config.num_attention_heads),
      cat("give a multiple of ", kGroups));
}

LayerSpec start(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  spec.residual = Residual::kParallelOneNorm;
  spec.modules.push_back(norm(config, Role::kInputNorm, "ln_1", config.hidden_size));
  return spec;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start(config, layer);
  add_attention(config, spec,
                {.query = "attn.q_proj",
                 .key = "attn.k_proj",
                 .value = "attn.v_proj",
                 .output = "attn.out_proj"});
  add_plain_mlp(config, spec, "mlp.fc_in", "mlp.fc_out");
  return spec;
}

// Describes a layer of CodeGen. Each group of rows in the fused matrix contains the queries, then
// the values, then the keys of the group's heads.
LayerSpec describe_codegen(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start(config, layer);
  spec.modules.push_back(
      fused_attention(config, "attn.qkv_proj", AttentionSpec::Fused::kByKeyHead, spec));
  spec.modules.back().grain = spec.modules.back().out / kGroups;
  spec.modules.push_back(
      matrix(Role::kAttentionOut, "attn.out_proj", config.hidden_size, config.hidden_size));
  add_plain_mlp(config, spec, "mlp.fc_in", "mlp.fc_out");
  return spec;
}

constexpr ConfigDefaults kDefaults = {.max_position_embeddings = 2048,
                                      .norm_eps = 1e-5,
                                      .hidden_act = "gelu_new",
                                      .intermediate_ratio = 4};
constexpr ModuleNames kNames = {
    .embedding = "transformer.wte", .layers = "transformer.h", .norm = "transformer.ln_f"};

}  // namespace

const Family kGptj = {
    .model_type = "gptj",
    .description = "GPT-J decoder: partly rotated attention and a plain MLP side by side",
    .layer_class = "transformers.models.gptj.modeling_gptj.GPTJBlock",
    .keys = gpt_keys(),
    .defaults = kDefaults,
    .runs = false,
    .rotates_part = true,
    .norm = NormKind::kLayer,
    .pads_embedding = false,
    .names = kNames,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

const Family kCodegen = {
    .model_type = "codegen",
    .description = "CodeGen decoder: GPT-J's with one matrix for queries, values and keys",
    .layer_class = "transformers.models.codegen.modeling_codegen.CodeGenBlock",
    .keys = gpt_keys(),
    .defaults = kDefaults,
    .runs = false,
    .rotates_part = true,
    .norm = NormKind::kLayer,
    .pads_embedding = false,
    .names = kNames,
    .read_config = read_codegen,
    .describe_layer = describe_codegen,
};

}  // namespace am::model
