// Granite 3 MoE: Granite's decoder with experts in every layer, stored as one tensor per
// projection.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

// Reads the keys of Granite MoE. intermediate_size is the width of an expert.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  read_granite_factors(reader, config);
  read_moe(reader, config,
           {.experts = {"num_local_experts"},
            .default_experts = 8,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 2,
            .width = "intermediate_size",
            .default_width = 11008});
}

// Returns a module with a tensor [experts, out, in], the matrices of all experts.
ModuleSpec stacked(Role role, std::string_view name, int64_t out, int64_t in, int64_t experts) {
  ModuleSpec module = matrix(role, name, out, in);
  module.copies = experts;
  module.stacked = true;
  return module;
}

// Describes a layer with the parameter names of the files on the hub, where the rows of an expert's
// gate precede those of its up projection. transformers has other names in memory, but saves these.
LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const int64_t experts = config.moe->experts;
  const int64_t width = config.moe->expert_width;
  const int64_t hidden = config.hidden_size;
  LayerSpec spec = start_layer(config, layer);
  spec.router->score = RouterSpec::Score::kSoftmaxOfTaken;
  add_attention(config, spec);
  add_norms(config, spec, kLlamaNorms);
  add_router(config, spec, "block_sparse_moe.router.layer");
  spec.modules.push_back(
      stacked(Role::kExpertGateUp, "block_sparse_moe.input_linear", 2 * width, hidden, experts));
  spec.modules.push_back(
      stacked(Role::kExpertDown, "block_sparse_moe.output_linear", hidden, width, experts));
  return spec;
}

}  // namespace

const Family kGraniteMoe = {
    .model_type = "granitemoe",
    .description = "Granite MoE decoder: Granite's factors, experts in every layer",
    .layer_class = "transformers.models.granitemoe.modeling_granitemoe.GraniteMoeDecoderLayer",
    .defaults = {.max_position_embeddings = 2048},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
