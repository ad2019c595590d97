// Defines compare_model() (exchange.h), which compares the model sizes and names in an imported
// file with the model's config.json.
#include "am/base/text.h"
#include "am/frameworks/exchange.h"
#include "am/frameworks/model_name.h"

namespace am::frameworks {

int64_t model_size(const model::ModelConfig& model, std::string_view config_key) {
  const model::MoeConfig moe = model.moe.value_or(model::MoeConfig{});
  const std::pair<std::string_view, int64_t> sizes[] = {
      {"num_hidden_layers", model.num_hidden_layers},
      {"hidden_size", model.hidden_size},
      {"intermediate_size", model.intermediate_size},
      {"num_attention_heads", model.num_attention_heads},
      {"num_key_value_heads", model.num_key_value_heads},
      {"head_dim", model.head_dim},
      {"vocab_size", model.vocab_size},
      {"num_experts", moe.experts},
      {"num_experts_per_tok", moe.experts_per_token},
      {"moe_intermediate_size", moe.expert_width}};
  for (const auto& [name, value] : sizes) {
    if (name == config_key) return value;
  }
  return 0;
}

void compare_model(const Imported& imported, const model::ModelConfig& model, Diagnostics& found,
                   bool force) {
  const auto report = [&](const Span& span, const std::string& message) {
    found.add(
        {"exchange.model", force ? Severity::kWarning : Severity::kError, span, message,
         force ? "" : "use --model to name the model that this file configures, or add --force"});
  };
  for (const Geometry& size : imported.geometry) {
    const int64_t of_model = model_size(model, size.config_key);
    if (of_model == size.value) continue;
    report(size.span, cat(size.key, " ", size.value, ", but the model of ", model.file, " has ",
                          size.config_key, " = ", of_model));
  }
  for (const ModelName& name : imported.names) {
    const std::string differs = contradiction(name.text, model);
    if (differs.empty()) continue;
    report(name.span,
           cat(name.key, " = ", name.text, ", but the model of ", model.file, " ", differs));
  }
}

}  // namespace am::frameworks
