#include "am/model/inventory.h"

#include <algorithm>
#include <utility>

#include "am/base/text.h"

namespace am::model {
namespace {

constexpr std::string_view kLayerPrefix = "model.layers.";
constexpr std::string_view kEmbedding = "model.embed_tokens";
constexpr std::string_view kHead = "lm_head";

class Builder {
 public:
  explicit Builder(Inventory& inventory) : inventory_(inventory) {}

  void set_layer(int layer) { layer_ = layer; }

  void embedding(std::string module, int64_t rows, int64_t columns) {
    add(std::move(module), "weight", {rows, columns}, ModuleKind::kEmbedding, Init::kNormal);
  }
  void linear(const std::string& module, int64_t out, int64_t in, bool bias) {
    add(module, "weight", {out, in}, ModuleKind::kLinear, Init::kNormal);
    if (bias) add(module, "bias", {out}, ModuleKind::kLinear, Init::kZeros);
  }
  void norm(std::string module, int64_t size) {
    add(std::move(module), "weight", {size}, ModuleKind::kNorm, Init::kOnes);
  }

 private:
  void add(std::string module, std::string_view leaf, Shape shape, ModuleKind kind, Init init) {
    module.append(".").append(leaf);
    inventory_.parameters.push_back({.name = std::move(module),
                                     .shape = std::move(shape),
                                     .module_kind = kind,
                                     .init = init,
                                     .layer = layer_});
  }

  Inventory& inventory_;
  int layer_ = -1;
};

void add_layer(const ModelConfig& config, int layer, Builder& builder) {
  const std::string prefix = cat(kLayerPrefix, layer, ".");
  const int64_t hidden = config.hidden_size;
  const int64_t query = config.num_attention_heads * config.head_dim;
  const int64_t key_value = config.num_key_value_heads * config.head_dim;
  builder.set_layer(layer);
  builder.linear(prefix + "self_attn.q_proj", query, hidden, config.qkv_bias);
  builder.linear(prefix + "self_attn.k_proj", key_value, hidden, config.qkv_bias);
  builder.linear(prefix + "self_attn.v_proj", key_value, hidden, config.qkv_bias);
  builder.linear(prefix + "self_attn.o_proj", hidden, query, config.o_bias);
  if (config.qk_norm) {
    builder.norm(prefix + "self_attn.q_norm", config.head_dim);
    builder.norm(prefix + "self_attn.k_norm", config.head_dim);
  }
  builder.linear(prefix + "mlp.gate_proj", config.intermediate_size, hidden, config.mlp_bias);
  builder.linear(prefix + "mlp.up_proj", config.intermediate_size, hidden, config.mlp_bias);
  builder.linear(prefix + "mlp.down_proj", hidden, config.intermediate_size, config.mlp_bias);
  builder.norm(prefix + "input_layernorm", hidden);
  builder.norm(prefix + "post_attention_layernorm", hidden);
  builder.set_layer(-1);
}

}  // namespace

std::string ParameterSpec::module() const { return name.substr(0, name.rfind('.')); }

std::string ParameterSpec::leaf() const { return name.substr(name.rfind('.') + 1); }

int64_t Inventory::total() const {
  int64_t total = 0;
  for (const ParameterSpec& parameter : parameters) total += numel(parameter.shape);
  return total;
}

const ParameterSpec* Inventory::find(std::string_view name) const {
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const ParameterSpec& spec) { return spec.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

Inventory build_inventory(const ModelConfig& config) {
  Inventory inventory;
  inventory.tied_lm_head = config.tie_word_embeddings;
  Builder builder(inventory);
  builder.embedding(std::string(kEmbedding), config.vocab_size, config.hidden_size);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    add_layer(config, static_cast<int>(layer), builder);
  }
  builder.norm("model.norm", config.hidden_size);
  if (!config.tie_word_embeddings) {
    builder.linear(std::string(kHead), config.vocab_size, config.hidden_size, false);
  }
  return inventory;
}

std::vector<Unit> shard_units(const Inventory& inventory) {
  std::vector<Unit> units;
  Unit embedding{.name = std::string(kEmbedding), .parameters = {}, .layer = -1};
  Unit head{.name = std::string(kHead), .parameters = {}, .layer = -1};
  Unit root{.name = "", .parameters = {}, .layer = -1};
  std::vector<Unit> layers;
  for (size_t i = 0; i < inventory.parameters.size(); ++i) {
    const ParameterSpec& parameter = inventory.parameters[i];
    const auto index = static_cast<int>(i);
    if (parameter.layer >= 0) {
      const auto layer = static_cast<size_t>(parameter.layer);
      while (layers.size() <= layer) {
        const auto next = static_cast<int>(layers.size());
        layers.push_back({.name = cat(kLayerPrefix, next), .parameters = {}, .layer = next});
      }
      layers[layer].parameters.push_back(index);
    } else if (starts_with(parameter.name, cat(kEmbedding, "."))) {
      embedding.parameters.push_back(index);
    } else if (starts_with(parameter.name, cat(kHead, "."))) {
      head.parameters.push_back(index);
    } else {
      root.parameters.push_back(index);
    }
  }
  units.push_back(std::move(embedding));
  for (Unit& layer : layers) units.push_back(std::move(layer));
  if (!head.parameters.empty()) units.push_back(std::move(head));
  units.push_back(std::move(root));
  return units;
}

}  // namespace am::model
