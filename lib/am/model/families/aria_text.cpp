// Aria's text part: the Llama decoder with routed and shared experts in every layer. One tensor
// [experts, in, out] per projection stores the routed experts.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kShared = 2;

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  read_moe(reader, config,
           {.experts = {"moe_num_experts"},
            .default_experts = 8,
            .experts_per_token = {"moe_topk"},
            .default_experts_per_token = 2,
            .width = "intermediate_size",
            .default_width = 4096});
  const int64_t shared = reader.integer("moe_num_shared_experts", 1, kMaxShared).value_or(kShared);
  if (config.moe.has_value()) config.moe->shared_width = shared * config.moe->expert_width;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const int64_t width = config.moe->expert_width;
  const int64_t hidden = config.hidden_size;
  LayerSpec spec = start_layer(config, layer);
  spec.router->score = RouterSpec::Score::kSoftmaxOfTaken;
  add_attention(config, spec);
  add_router(config, spec, "mlp.router");
  spec.modules.push_back(
      conv1d(stacked_experts(config, Role::kExpertGateUp, "mlp.experts.fc1", 2 * width, hidden)));
  spec.modules.push_back(
      conv1d(stacked_experts(config, Role::kExpertDown, "mlp.experts.fc2", hidden, width)));
  add_shared_experts(config, spec, "mlp.shared_experts");
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kAriaText = {
    .model_type = "aria_text",
    .description = "Aria decoder: Llama's with routed and shared experts in every layer",
    .layer_class = "transformers.models.aria.modeling_aria.AriaTextDecoderLayer",
    .defaults = {.max_position_embeddings = 2048, .pad_token_id = 2},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
