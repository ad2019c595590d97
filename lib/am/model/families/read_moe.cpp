// Reads the config keys of experts (their number and width, and the layers with experts), lists of
// layer indices, and attention_bias.
#include <algorithm>

#include "am/base/text.h"
#include "am/model/families/blocks.h"

namespace am::model {
namespace {

constexpr int64_t kMaxExperts = int64_t{1} << 14;
constexpr int64_t kMaxExpertWidth = int64_t{1} << 22;

// Returns the first of the alternative spellings of a key under which the config has a value other
// than null. If there is none, returns the first spelling.
std::string_view present_key(const ConfigReader& reader,
                             std::initializer_list<std::string_view> spellings) {
  const auto* const found =
      std::find_if(spellings.begin(), spellings.end(),
                   [&](std::string_view key) { return !reader.raw(key).is_null(); });
  return found == spellings.end() ? *spellings.begin() : *found;
}

int64_t read_or(ConfigReader& reader, std::string_view key, int64_t low, int64_t high,
                int64_t fallback) {
  if (fallback == 0 && low > 0) return reader.required_integer(key, low, high);
  return reader.integer(key, low, high).value_or(fallback);
}

}  // namespace

std::vector<bool> read_layer_indices(ConfigReader& reader, const ModelConfig& config,
                                     std::string_view key) {
  std::vector<bool> layers(static_cast<size_t>(config.num_hidden_layers), false);
  const Json& listed = reader.raw(key);
  bool fits = listed.is_null() || listed.is_array();
  for (const Json& layer : listed) {
    const bool is_layer = layer.is_number_integer() && layer >= 0;
    fits = fits && is_layer;
    if (is_layer && layer < config.num_hidden_layers) layers[layer.get<size_t>()] = true;
  }
  if (!fits) reader.error("model.type", key, cat(key, " must be a list of layer indices"));
  return layers;
}

void read_moe(ConfigReader& reader, ModelConfig& config, const MoeKeys& keys, bool may_be_dense) {
  MoeConfig moe;
  const std::string_view experts_key = present_key(reader, keys.experts);
  const std::string_view taken_key = present_key(reader, keys.experts_per_token);
  moe.experts =
      read_or(reader, experts_key, may_be_dense ? 0 : 1, kMaxExperts, keys.default_experts);
  if (moe.experts == 0) return;
  moe.experts_per_token =
      read_or(reader, taken_key, 1, kMaxExperts, keys.default_experts_per_token);
  moe.expert_width = read_or(reader, keys.width, 1, kMaxExpertWidth, keys.default_width);
  if (moe.experts_per_token > moe.experts) {
    reader.error("model.experts", taken_key,
                 cat(taken_key, " = ", moe.experts_per_token, ", but there are only ", moe.experts,
                     " experts (", experts_key, ")"),
                 cat("legal values: 1 to ", moe.experts));
  }
  moe.layers.assign(static_cast<size_t>(config.num_hidden_layers), true);
  config.moe = std::move(moe);
}

void read_mixtral_experts(ConfigReader& reader, ModelConfig& config) {
  read_moe(reader, config,
           {.experts = {"num_local_experts", "num_experts"},
            .default_experts = 8,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 2,
            .width = "intermediate_size",
            .default_width = 14336});
  read_jitter(reader, config);
  if (config.moe.has_value()) config.moe->normalise = true;
}

void read_jitter(ConfigReader& reader, ModelConfig& config) {
  const double jitter = reader.number("router_jitter_noise", 0.0, 1.0).value_or(0.0);
  if (config.moe.has_value()) config.moe->jitter = jitter;
}

void read_normalisation(ConfigReader& reader, ModelConfig& config, bool fallback) {
  const bool normalise = reader.boolean("norm_topk_prob").value_or(fallback);
  if (config.moe.has_value()) config.moe->normalise = normalise;
}

void read_sparse_layers(ConfigReader& reader, ModelConfig& config) {
  const int64_t layers = config.num_hidden_layers;
  const int64_t step = reader.integer("decoder_sparse_step", 1, int64_t{1} << 20).value_or(1);
  const Json& dense = reader.raw("mlp_only_layers");
  if (!dense.is_null() && !dense.is_array()) {
    reader.error("model.type", "mlp_only_layers",
                 "mlp_only_layers must be a list of layer indices");
    return;
  }
  if (!config.moe.has_value()) return;
  std::vector<bool>& sparse = config.moe->layers;
  for (size_t i = 0; i < sparse.size(); ++i) {
    sparse[i] = (static_cast<int64_t>(i) + 1) % step == 0;
  }
  for (const Json& item : dense) {
    const bool fits = item.is_number_integer() && item >= 0 && item < layers;
    if (!fits) {
      reader.error("model.value", "mlp_only_layers",
                   cat("mlp_only_layers names ", item.dump(), ", which is not a layer"),
                   cat("legal values: 0 to ", layers - 1));
      return;
    }
    sparse[item.get<size_t>()] = false;
  }
}

void set_dense_layers(ModelConfig& config, int64_t dense) {
  std::vector<bool>& layers = config.moe->layers;
  for (size_t i = 0; i < layers.size(); ++i) layers[i] = static_cast<int64_t>(i) >= dense;
}

void read_mlp_layer_types(ConfigReader& reader, ModelConfig& config, int64_t dense) {
  constexpr std::string_view kKey = "mlp_layer_types";
  const Json& types = reader.raw(kKey);
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  std::vector<bool> sparse;
  if (types.is_null()) {
    if (config.moe.has_value()) set_dense_layers(config, dense);
    return;
  }
  if (types.is_array() && types.size() == layers &&
      std::all_of(types.begin(), types.end(),
                  [](const Json& type) { return type == "dense" || type == "sparse"; })) {
    for (const Json& type : types) sparse.push_back(type == "sparse");
  } else {
    reader.error("model.value", kKey,
                 cat("mlp_layer_types must be a list of ", layers,
                     " texts, one for each layer: \"dense\" or \"sparse\""));
    return;
  }
  if (config.moe.has_value()) config.moe->layers = std::move(sparse);
}

void read_attention_bias(ConfigReader& reader, ModelConfig& config, bool fallback) {
  const bool bias = reader.boolean("attention_bias").value_or(fallback);
  config.qkv_bias = bias;
  config.o_bias = bias;
}

}  // namespace am::model
