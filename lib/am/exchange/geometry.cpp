// compare_geometry: the model's sizes in an imported file, held against those of config.json.
#include "am/base/text.h"
#include "am/exchange/exchange.h"

namespace am::exchange {

// A dense model has no experts.
int64_t model_size(const model::ModelConfig& model, std::string_view config_key) {
  const model::MoeConfig moe = model.moe.value_or(model::MoeConfig{});
  const std::pair<std::string_view, int64_t> sizes[] = {
      {"num_hidden_layers", model.num_hidden_layers},
      {"hidden_size", model.hidden_size},
      {"intermediate_size", model.intermediate_size},
      {"num_attention_heads", model.num_attention_heads},
      {"num_key_value_heads", model.num_key_value_heads},
      {"head_dim", model.head_dim},
      {"num_experts", moe.experts},
      {"num_experts_per_tok", moe.experts_per_token},
      {"moe_intermediate_size", moe.expert_width}};
  for (const auto& [name, value] : sizes) {
    if (name == config_key) return value;
  }
  return 0;
}

void compare_geometry(const Imported& imported, const model::ModelConfig& model, Diagnostics& found,
                      bool force) {
  for (const Geometry& size : imported.geometry) {
    const int64_t of_model = model_size(model, size.config_key);
    if (of_model == size.value) continue;
    found.add({"exchange.model", force ? Severity::kWarning : Severity::kError, size.span,
               cat(size.key, " ", size.value, ", but the model of ", model.file, " has ",
                   size.config_key, " = ", of_model),
               force ? "" : "--model with the model that the file is for, or --force"});
  }
}

}  // namespace am::exchange
