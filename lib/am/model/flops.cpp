#include "am/model/flops.h"

namespace am::model {

int64_t active_parameters(const Inventory& inventory) { return inventory.total(); }

double train_flops_per_token(const ModelConfig& config, int64_t seq_len) {
  int64_t multiplied = 0;
  for (const ParameterSpec& parameter : build_inventory(config).parameters) {
    const bool look_up = parameter.module_kind == ModuleKind::kEmbedding;
    if (!look_up || config.tie_word_embeddings) multiplied += numel(parameter.shape);
  }
  const double attention = static_cast<double>(config.num_hidden_layers) *
                           static_cast<double>(config.num_attention_heads * config.head_dim) *
                           static_cast<double>(seq_len);
  return 6.0 * static_cast<double>(multiplied) + 12.0 * attention;
}

}  // namespace am::model
