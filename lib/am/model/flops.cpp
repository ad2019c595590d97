#include "am/model/flops.h"

#include <algorithm>

namespace am::model {
namespace {

// Sums over all layers of the model.
struct LayerSums {
  double weights = 0.0;    // number of weights that a token is multiplied with
  double attention = 0.0;  // sum of attended()
};

enum class Windows { kCounted, kIgnored };

// Returns query heads * head dim * min(window, sequence length) of a layer; the head dim is the
// mean of the key and value widths. With Windows::kIgnored, returns query heads * head dim *
// sequence length.
double attended(const AttentionSpec& attention, int64_t seq_len, Windows windows) {
  const int64_t reach = windows == Windows::kCounted ? attention.window.value_or(seq_len) : seq_len;
  const double width = static_cast<double>(attention.heads) *
                       static_cast<double>(attention.qk_width + attention.v_width) / 2.0;
  return width * static_cast<double>(std::min(reach, seq_len));
}

LayerSums layer_sums(const ModelConfig& config, int64_t seq_len,
                     Windows windows = Windows::kCounted) {
  LayerSums sums;
  const DecoderSpec spec = describe(config);
  for (size_t i = 0; i < spec.kinds.size(); ++i) {
    const LayerSpec& kind = spec.kinds[i];
    const auto layers = static_cast<double>(
        std::count(spec.kind_of_layer.begin(), spec.kind_of_layer.end(), static_cast<int>(i)));
    sums.weights += layers * matmul_parameters(kind);
    sums.attention += layers * attended(kind.attention, seq_len, windows);
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
  // The division is exact, because all experts have equal sizes.
  return total -
         routed / config.moe->experts * (config.moe->experts - config.moe->experts_per_token);
}

int64_t active_parameters(const ModelConfig& config) {
  return active_parameters(config, build_inventory(config));
}

int64_t mtp_parameters(const ModelConfig& config) {
  if (config.mtp_layers == 0) return 0;
  const DecoderSpec spec = describe(config);
  const auto experts = std::find_if(spec.kinds.begin(), spec.kinds.end(),
                                    [](const LayerSpec& kind) { return kind.router.has_value(); });
  const LayerSpec& like = experts == spec.kinds.end() ? spec.kinds.front() : *experts;
  int64_t layer = 0;
  for (const ModuleSpec& module : like.modules) layer += module.numel();
  const int64_t hidden = config.hidden_size;
  return config.mtp_layers * (layer + 2 * hidden * hidden + 3 * hidden);
}

double train_flops_per_token(const ModelConfig& config, int64_t seq_len) {
  const Inventory inventory = build_inventory(config);
  int64_t multiplied = active_parameters(config, inventory);
  for (const ParameterSpec& parameter : inventory.parameters) {
    if (parameter.module_kind != ModuleKind::kEmbedding) continue;
    const bool is_head = config.tie_word_embeddings && parameter.role == Role::kEmbedding;
    if (!is_head) multiplied -= numel(parameter.shape);
  }
  return 6.0 * static_cast<double>(multiplied) +
         12.0 * layer_sums(config, seq_len, Windows::kIgnored).attention;
}

std::vector<double> layer_forward_flops(const ModelConfig& config, int64_t seq_len) {
  const DecoderSpec spec = describe(config);
  std::vector<double> of_kind;
  for (const LayerSpec& kind : spec.kinds) {
    of_kind.push_back(2.0 * matmul_parameters(kind) +
                      2.0 * attended(kind.attention, seq_len, Windows::kCounted));
  }
  std::vector<double> of_layer;
  for (const int kind : spec.kind_of_layer) {
    of_layer.push_back(of_kind[static_cast<size_t>(kind)]);
  }
  return of_layer;
}

double head_forward_flops(const ModelConfig& config) { return 2.0 * head_weights(config); }

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

double korthikanti_flops_per_token(const ModelConfig& config, int64_t seq_len) {
  const LayerSums sums = layer_sums(config, seq_len);
  return 6.0 * sums.weights + 12.0 * sums.attention + 6.0 * head_weights(config);
}

}  // namespace am::model
