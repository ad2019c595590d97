// am-plan model CONFIG: prints the model's number of parameters by module.
#include <algorithm>
#include <map>
#include <memory>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/model/config.h"
#include "am/model/family.h"
#include "am/model/flops.h"
#include "am/model/inventory.h"
#include "am/term/table.h"
#include "commands.h"
#include "options.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

constexpr int64_t kUsualLength = 4096;

struct ModelOptions {
  std::string config;
  // Sequence length for which FLOPs are counted; 0: kUsualLength, or the model's limit if that is
  // less.
  int64_t seq_len = 0;
};

// Returns the name of the table row that counts the parameter. A row combines the weight and bias
// of a module over all layers and experts, for example "model.layers.*.self_attn.q_proj". A
// parameter that is neither a weight nor a bias, such as gpt-oss's fused experts, has its own row.
std::string collapsed(const am::model::ParameterSpec& parameter) {
  const std::string leaf = parameter.leaf();
  const bool usual = leaf == "weight" || leaf == "bias";
  return am::model::any_layer_name(usual ? parameter.module() : parameter.name, parameter.layer);
}

// Returns the number of parameters of each table row, in the order of the model.
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

// Whether configs of the model's family contain a number of attention heads (has_heads) and a limit
// of positions (has_positions). Configs of Mamba contain neither.
bool has_heads(const am::model::ModelConfig& config) {
  const am::model::ConfigKeys& keys = am::model::family_of(config).keys;
  return !keys.heads.empty() || !keys.head_dim.empty();
}
bool has_positions(const am::model::ModelConfig& config) {
  return !am::model::family_of(config).keys.positions.empty();
}

am::Json to_json(const am::model::ModelConfig& config, const am::model::Inventory& inventory,
                 int64_t seq_len) {
  am::Json modules = am::Json::object();
  for (const auto& [module, count] : by_module(inventory)) modules[module] = count;
  am::Json json = am::Json::object();
  json["model_type"] = config.model_type;
  json["parameters"] = inventory.total();
  json["active_parameters"] = am::model::active_parameters(config, inventory);
  if (config.mtp_layers > 0) {
    json["mtp_layers"] = config.mtp_layers;
    json["parameters_with_mtp"] = inventory.total() + am::model::mtp_parameters(config);
  }
  json["layers"] = config.num_hidden_layers;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  if (has_heads(config)) {
    json["attention_heads"] = config.num_attention_heads;
    json["key_value_heads"] = config.num_key_value_heads;
    json["head_dim"] = config.head_dim;
  }
  if (config.moe.has_value()) {
    json["experts"] = config.moe->experts;
    json["experts_per_token"] = config.moe->experts_per_token;
  }
  json["vocab_size"] = config.vocab_size;
  if (has_positions(config)) json["max_position_embeddings"] = config.max_position_embeddings;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["seq_len"] = seq_len;
  json["model_flops_per_token"] = am::model::train_flops_per_token(config, seq_len);
  json["parameters_by_module"] = std::move(modules);
  return json;
}

std::string experts_text(const am::model::ModelConfig& config) {
  if (!config.moe.has_value()) return {};
  const am::model::MoeConfig& moe = *config.moe;
  const auto layers = std::count(moe.layers.begin(), moe.layers.end(), true);
  return am::cat("  ", moe.experts_per_token, " of ", moe.experts, " experts per token, of width ",
                 moe.expert_width,
                 moe.shared_width > 0 ? am::cat(", shared experts of width ", moe.shared_width)
                                      : std::string(),
                 ", in ", layers, layers == 1 ? " layer\n" : " layers\n");
}

std::string window_text(const am::model::ModelConfig& config) {
  int64_t layers = 0;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (am::model::window_of(config, layer).has_value()) ++layers;
  }
  if (layers == 0) return {};
  std::string where;
  if (layers < config.num_hidden_layers) {
    where = config.window_layers.empty() ? am::cat(" from layer ", config.window_first_layer, " on")
                                         : am::cat(" in ", layers, " layers");
  }
  return am::cat("  a sliding window of ", *config.sliding_window, " positions", where, "\n");
}

std::string geometry(const am::model::ModelConfig& config) {
  std::string text = am::cat("  ", config.num_hidden_layers, " layers, hidden ", config.hidden_size,
                             ", feed-forward ", config.intermediate_size, ", vocabulary ",
                             config.vocab_size, "\n");
  std::string attention;
  if (has_heads(config)) {
    attention = am::cat(config.num_attention_heads, " heads of ", config.head_dim, ", ",
                        config.num_key_value_heads, " key/value heads");
  }
  if (has_positions(config)) {
    attention += am::cat(attention.empty() ? "" : ", ", "up to ", config.max_position_embeddings,
                         " positions");
  }
  if (!attention.empty()) text += am::cat("  ", attention, "\n");
  if (config.tie_word_embeddings) text += "  the head shares the embedding's weight\n";
  if (config.mla.has_value()) {
    const am::model::MlaConfig& mla = *config.mla;
    text += am::cat(
        "  latent attention (MLA): keys and values of rank ", mla.kv_lora_rank,
        mla.q_lora_rank > 0 ? am::cat(", queries of rank ", mla.q_lora_rank) : std::string(),
        "; heads of ", mla.qk_nope_head_dim, " + ", mla.qk_rope_head_dim, " rotated, values of ",
        mla.v_head_dim, "\n");
  }
  return text + experts_text(config) + window_text(config);
}

std::string report(const am::model::ModelConfig& config, const am::model::Inventory& inventory,
                   int64_t seq_len, const am::term::Style& style) {
  const int64_t total = inventory.total();
  am::term::Table table({{"module", am::term::Align::kWrap},
                         {"parameters", am::term::Align::kRight},
                         {"share", am::term::Align::kRight}});
  for (const auto& [module, count] : by_module(inventory)) {
    const double share = 100.0 * static_cast<double>(count) / static_cast<double>(total);
    table.add({module, am::format_count(count), am::format_fixed(share, 1) + " %"});
  }
  table.add_rule();
  table.add({{"total", am::term::Role::kBold},
             {am::format_count(total), am::term::Role::kBold},
             "100.0 %"});
  const double flops = am::model::train_flops_per_token(config, seq_len);
  const int64_t active = am::model::active_parameters(config, inventory);
  std::string counts;
  if (active != total) {
    counts += am::cat("active for one token: ", am::format_count(active), " parameters\n");
  }
  if (config.mtp_layers > 0) {
    counts += am::cat("with ", config.mtp_layers,
                      config.mtp_layers == 1 ? " MTP layer: " : " MTP layers: ",
                      am::format_count(total + am::model::mtp_parameters(config)), " parameters\n");
  }
  return am::cat(style.paint(am::term::Role::kBold, model_text(config, total)), "\n",
                 geometry(config), "\n", table.text(style), "\n", counts,
                 "training: ", am::format_fixed(flops / 1e9, 2),
                 " GFLOP a token at sequence length ", seq_len, "\n");
}

int run_model(const ModelOptions& options, const Output& output) {
  am::Diagnostics found;
  const auto config = load_named_model(options.config, found);
  if (!config.has_value()) return am_apps::refuse(found, output);
  am_apps::print_diagnostics(found, output);
  const am::model::Inventory inventory = am::model::build_inventory(*config);
  const int64_t longest = has_positions(*config) ? config->max_position_embeddings : kUsualLength;
  const int64_t seq_len =
      options.seq_len > 0 ? options.seq_len : std::min<int64_t>(kUsualLength, longest);
  if (output.json) {
    am_apps::print(to_json(*config, inventory, seq_len));
  } else {
    print_folded(report(*config, inventory, seq_len, output.out), output.out);
  }
  return am_apps::kFine;
}

Run declare_model(CLI::App& command, SharedOptions& shared) {
  auto options = std::make_shared<ModelOptions>();
  add_option(
      command,
      {"CONFIG", "",
       "A Hugging Face config.json, its folder, or a model's name such as llama-3.1-8b", kRequired},
      options->config);
  add_option(command, {"--seq-len", "S", "Sequence length of the FLOPs per token"},
             options->seq_len);
  add_json(command, shared);
  return [options](const Output& output) { return run_model(*options, output); };
}

}  // namespace

const Command kModelCommand = {
    .name = "model",
    .summary = "Count a model's parameters",
    .example = "am-plan model plans/models/llama-3.1-8b",
    .declare = declare_model,
};

}  // namespace am_plan
