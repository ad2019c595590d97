// am-plan model CONFIG: how many parameters, and where they are.
#include <algorithm>
#include <map>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/model/config.h"
#include "am/model/family.h"
#include "am/model/flops.h"
#include "am/model/inventory.h"
#include "am/term/table.h"
#include "commands.h"
#include "text.h"

namespace am_plan {
namespace {

// "model.layers.*.self_attn.q_proj": layers are counted together.
std::string collapsed(const am::model::ParameterSpec& parameter) {
  std::string module = parameter.module();
  const std::string layer = am::cat("model.layers.", parameter.layer, ".");
  if (parameter.layer >= 0) module.replace(0, layer.size(), "model.layers.*.");
  return module;
}

// Parameters by module, in the order of the model.
std::vector<std::pair<std::string, int64_t>> by_module(const am::model::Inventory& inventory) {
  std::vector<std::pair<std::string, int64_t>> modules;
  std::map<std::string, size_t> index;
  for (const am::model::ParameterSpec& parameter : inventory.parameters) {
    const auto [at, fresh] = index.emplace(collapsed(parameter), modules.size());
    if (fresh) modules.emplace_back(at->first, 0);
    modules[at->second].second += am::numel(parameter.shape);
  }
  return modules;
}

am::Json to_json(const am::model::ModelConfig& config, const am::model::Inventory& inventory,
                 int64_t seq_len) {
  am::Json modules = am::Json::object();
  for (const auto& [module, count] : by_module(inventory)) modules[module] = count;
  am::Json json = am::Json::object();
  json["model_type"] = config.model_type;
  json["parameters"] = inventory.total();
  json["active_parameters"] = am::model::active_parameters(inventory);
  json["layers"] = config.num_hidden_layers;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["attention_heads"] = config.num_attention_heads;
  json["key_value_heads"] = config.num_key_value_heads;
  json["head_dim"] = config.head_dim;
  json["vocab_size"] = config.vocab_size;
  json["max_position_embeddings"] = config.max_position_embeddings;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["seq_len"] = seq_len;
  json["model_flops_per_token"] = am::model::train_flops_per_token(config, seq_len);
  json["parameters_by_module"] = std::move(modules);
  return json;
}

std::string geometry(const am::model::ModelConfig& config) {
  std::string text = am::cat(
      "  ", config.num_hidden_layers, " layers, hidden ", config.hidden_size, ", feed-forward ",
      config.intermediate_size, ", vocabulary ", config.vocab_size, "\n  ",
      config.num_attention_heads, " heads of ", config.head_dim, ", ", config.num_key_value_heads,
      " key/value heads, up to ", config.max_position_embeddings, " positions\n");
  if (config.tie_word_embeddings) text += "  the head shares the embedding's weight\n";
  if (config.sliding_window.has_value()) {
    text += am::cat("  a sliding window of ", *config.sliding_window, " positions",
                    config.window_first_layer > 0
                        ? am::cat(" from layer ", config.window_first_layer, " on")
                        : std::string(),
                    "\n");
  }
  return text;
}

std::string report(const am::model::ModelConfig& config, const am::model::Inventory& inventory,
                   int64_t seq_len, const am::term::Style& style) {
  const int64_t total = inventory.total();
  am::term::Table table(
      {{"module"}, {"parameters", am::term::Align::kRight}, {"share", am::term::Align::kRight}});
  for (const auto& [module, count] : by_module(inventory)) {
    const double share = 100.0 * static_cast<double>(count) / static_cast<double>(total);
    table.add({module, am::format_count(count), am::format_fixed(share, 1) + " %"});
  }
  table.add_rule();
  table.add({{"total", am::term::Role::kBold},
             {am::format_count(total), am::term::Role::kBold},
             "100.0 %"});
  const double flops = am::model::train_flops_per_token(config, seq_len);
  return am::cat(style.paint(am::term::Role::kBold, model_text(config, total)), "\n",
                 geometry(config), "\n", table.text(style), "\n",
                 "training: ", am::format_fixed(flops / 1e9, 2),
                 " GFLOP a token at sequence length ", seq_len, "\n");
}

}  // namespace

int run_model(const ModelOptions& options, const Output& output) {
  am::Diagnostics found;
  const auto config = am::model::load_config(options.config, found);
  if (!config.has_value()) return am_apps::refuse(found, output);
  am_apps::print_diagnostics(found, output);
  const am::model::Inventory inventory = am::model::build_inventory(*config);
  const int64_t seq_len = options.seq_len > 0
                              ? options.seq_len
                              : std::min<int64_t>(4096, config->max_position_embeddings);
  if (output.json) {
    am_apps::print(to_json(*config, inventory, seq_len));
  } else {
    am_apps::print(report(*config, inventory, seq_len, output.out));
  }
  return am_apps::kFine;
}

}  // namespace am_plan
