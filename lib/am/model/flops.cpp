#include "am/model/flops.h"

#include <algorithm>

#include "am/base/text.h"
#include "am/model/layer_profile.h"

namespace am::model {
namespace {

// Of the layers: weights that a token is multiplied with, and the sum over layers of
// (n d) * min(window, s).
struct LayerSums {
  double weights = 0.0;
  double attention = 0.0;
};

enum class Windows { kCounted, kIgnored };

LayerSums layer_sums(const ModelConfig& config, int64_t seq_len,
                     Windows windows = Windows::kCounted) {
  LayerSums sums;
  for (const LayerKind& kind : layer_kinds(config)) {
    const AttentionProfile& attention = kind.profile.attention;
    const auto layers = static_cast<double>(kind.layers.size());
    const int64_t reach =
        windows == Windows::kCounted ? attention.window.value_or(seq_len) : seq_len;
    const auto positions = static_cast<double>(std::min(reach, seq_len));
    const double width = static_cast<double>(attention.heads) *
                         static_cast<double>(attention.qk_head_dim + attention.v_head_dim) / 2.0;
    sums.weights += layers * layer_matmul_parameters(kind.profile, config.hidden_size);
    sums.attention += layers * width * positions;
  }
  return sums;
}

double head_weights(const ModelConfig& config) {
  return static_cast<double>(config.vocab_size) * static_cast<double>(config.hidden_size);
}

}  // namespace

int64_t active_parameters(const ModelConfig& config, const Inventory& inventory) {
  const int64_t total = inventory.total();
  if (!config.moe.has_value()) return total;
  int64_t routed = 0;
  for (const ParameterSpec& parameter : inventory.parameters) {
    if (parameter.module_kind == ModuleKind::kExpert) routed += numel(parameter.shape);
  }
  // All experts are alike, so that the division leaves nothing.
  return total -
         routed / config.moe->experts * (config.moe->experts - config.moe->experts_per_token);
}

int64_t active_parameters(const ModelConfig& config) {
  return active_parameters(config, build_inventory(config));
}

int64_t mtp_parameters(const ModelConfig& config) {
  if (config.mtp_layers == 0) return 0;
  const InventorySample sample = sample_inventory(config);
  const int last = sample.layers.back();  // with experts, where there are any
  int64_t layer = 0;
  for (const ParameterSpec& parameter : sample.inventory.parameters) {
    if (parameter.layer == last) layer += numel(parameter.shape);
  }
  const int64_t hidden = config.hidden_size;
  return config.mtp_layers * (layer + 2 * hidden * hidden + 3 * hidden);
}

double train_flops_per_token(const ModelConfig& config, int64_t seq_len) {
  const Inventory inventory = build_inventory(config);
  int64_t multiplied = active_parameters(config, inventory);
  const std::string table = cat(inventory.names.embedding, ".weight");
  for (const ParameterSpec& parameter : inventory.parameters) {
    if (parameter.module_kind != ModuleKind::kEmbedding) continue;
    const bool is_head = config.tie_word_embeddings && parameter.name == table;
    if (!is_head) multiplied -= numel(parameter.shape);
  }
  return 6.0 * static_cast<double>(multiplied) +
         12.0 * layer_sums(config, seq_len, Windows::kIgnored).attention;
}

double torchtitan_flops_per_token(const ModelConfig& config, int64_t seq_len) {
  const double without_table =
      static_cast<double>(active_parameters(config)) - head_weights(config);
  return 6.0 * without_table + 12.0 * layer_sums(config, seq_len).attention;
}

double palm_flops_per_token(const ModelConfig& config, int64_t seq_len) {
  return 6.0 * static_cast<double>(active_parameters(config)) +
         12.0 * layer_sums(config, seq_len).attention;
}

double megatron_bridge_flops_per_token(const ModelConfig& config, int64_t seq_len) {
  const LayerSums sums = layer_sums(config, seq_len);
  return 6.0 * (sums.weights + head_weights(config)) + 6.0 * sums.attention;
}

double nvidia_flops_per_token(const ModelConfig& config, int64_t seq_len) {
  const LayerSums sums = layer_sums(config, seq_len);
  return 6.0 * (sums.weights + head_weights(config)) + 12.0 * sums.attention;
}

double korthikanti_hardware_flops_per_token(const ModelConfig& config, int64_t seq_len) {
  const LayerSums sums = layer_sums(config, seq_len);
  return 8.0 * sums.weights + 16.0 * sums.attention + 6.0 * head_weights(config);
}

double korthikanti_flops_per_token(const ModelConfig& config, int64_t seq_len) {
  const LayerSums sums = layer_sums(config, seq_len);
  return 6.0 * sums.weights + 12.0 * sums.attention + 6.0 * head_weights(config);
}

}  // namespace am::model
