#include "am/planner/activations.h"

#include <algorithm>
#include <variant>

#include "am/base/text.h"
#include "am/planner/dtype_size.h"
#include "am/planner/precision.h"

namespace am::planner {
namespace {

// This rank's slice of a layer's projection: its rows (output width) or columns (input width).
double width(const Layout& layout, int64_t rank, const model::Unit& layer, std::string_view weight,
             size_t dim) {
  for (const int index : layer.parameters) {
    const ParameterLayout& parameter = layout.parameters[static_cast<size_t>(index)];
    if (ends_with(parameter.name, weight)) {
      return static_cast<double>(parameter.tp_shape(layout.mesh, rank)[dim]);
    }
  }
  return 0.0;
}

struct Widths {
  double query, key, value, attention_out, gate, up, down_in;
};

Widths widths(const Layout& layout, int64_t rank, const model::Unit& layer) {
  return {width(layout, rank, layer, "self_attn.q_proj.weight", 0),
          width(layout, rank, layer, "self_attn.k_proj.weight", 0),
          width(layout, rank, layer, "self_attn.v_proj.weight", 0),
          width(layout, rank, layer, "self_attn.o_proj.weight", 1),
          width(layout, rank, layer, "mlp.gate_proj.weight", 0),
          width(layout, rank, layer, "mlp.up_proj.weight", 0),
          width(layout, rank, layer, "mlp.down_proj.weight", 1)};
}

// RMSNorm of `elements` values, its output not counted. In float32 the composite operator saves its
// input and the normalised values. In a narrower dtype the statistics are computed on a float32
// copy, which is saved, and the normalised values are saved narrow.
double norm_bytes(double elements, double compute_bytes) {
  return compute_bytes == 4.0 ? elements * 8.0 : elements * (4.0 + compute_bytes);
}

}  // namespace

ActivationContext activation_context(const config::Plan& plan, const mesh::MeshLayout& mesh) {
  ActivationContext context;
  const mesh::MeshSizes& sizes = mesh.sizes();
  context.sequence = static_cast<double>(plan.train.seq_len) / static_cast<double>(sizes.cp);
  context.tokens = context.sequence * static_cast<double>(plan.train.micro_batch_size);
  context.compute_bytes = static_cast<double>(dtype_size(resolve_precision(plan).compute));
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) {
    if (fsdp2->sequence_parallel) context.sequence_parts = static_cast<double>(sizes.tp);
    context.checkpointing = fsdp2->activation_checkpointing;
    return context;
  }
  const bool on = std::visit(
      [](const auto& config) { return bool(config.activation_checkpointing); }, plan.strategy);
  if (on) context.checkpointing = config::ActivationCheckpointing::kFull;
  return context;
}

std::vector<SavedTensor> layer_tensors(const ActivationContext& context,
                                       const model::ModelConfig& config, const Layout& layout,
                                       int64_t rank, const model::Unit& layer) {
  const double N = context.tokens;
  const double c = context.compute_bytes;
  const double D = static_cast<double>(config.hidden_size);
  const double cut = context.sequence_parts;
  const Widths w = widths(layout, rank, layer);
  std::vector<SavedTensor> saved = {
      {"input norm", norm_bytes(N * D / cut, c)},
      // Gathered over the sequence where it was cut: a linear layer saves what it multiplies.
      {"input of q, k, v", N * D * c},
      {"queries, keys, values", N * (w.query + w.key + w.value) * c},
      // Flash attention saves its output, and a logarithm per token and head instead of the scores
      // (Dao et al., 2022).
      {"attention output", N * w.attention_out * c},
      {"attention statistics", N * w.query / static_cast<double>(config.head_dim) * 4.0},
      {"post-attention norm", norm_bytes(N * D / cut, c)},
      {"input of gate, up", N * D * c},
      {"gate and silu(gate)", N * 2.0 * w.gate * c},
      {"up", N * w.up * c},
      {"input of down", N * w.down_in * c},
  };
  if (config.qk_norm) saved.push_back({"q and k norms", norm_bytes(N * (w.query + w.key), c)});
  const auto window = model::window_of(config, layer.layer);
  const bool windowed = window.has_value() && static_cast<double>(*window) < context.sequence;
  if (windowed) saved.push_back({"window mask", context.sequence * context.sequence * c});
  return saved;
}

double layer_activations(const ActivationContext& context, const model::ModelConfig& config,
                         const Layout& layout, int64_t rank, const model::Unit& layer) {
  const double N = context.tokens;
  const double c = context.compute_bytes;
  const double input = N * static_cast<double>(config.hidden_size) / context.sequence_parts * c;
  if (context.checkpointing == config::ActivationCheckpointing::kFull) return input;
  if (context.checkpointing == config::ActivationCheckpointing::kSelective) {
    const Widths w = widths(layout, rank, layer);
    const double hidden = static_cast<double>(config.hidden_size);
    const double products = w.query + w.key + w.value + hidden + w.gate + w.up + hidden;
    return input + N * c * (w.attention_out + products / 2.0);
  }
  double total = 0.0;
  for (const SavedTensor& tensor : layer_tensors(context, config, layout, rank, layer)) {
    total += tensor.bytes;
  }
  return total;
}

double recomputed_activations(const ActivationContext& context, const model::ModelConfig& config,
                              const Layout& layout, int64_t rank, const model::Unit& layer) {
  if (context.checkpointing == config::ActivationCheckpointing::kOff) return 0.0;
  ActivationContext whole = context;
  whole.checkpointing = config::ActivationCheckpointing::kOff;
  return std::max(0.0, layer_activations(whole, config, layout, rank, layer) -
                           layer_activations(context, config, layout, rank, layer));
}

double embedding_activations(const ActivationContext& context) {
  return context.tokens * 8.0;  // the ids, int64
}

double final_norm_activations(const ActivationContext& context, const model::ModelConfig& config) {
  const double elements = context.tokens * static_cast<double>(config.hidden_size);
  return norm_bytes(elements / context.sequence_parts, context.compute_bytes) +
         elements * context.compute_bytes;
}

// The head's output (c), then in float32 the log-probabilities that the loss saves, the gradient
// with respect to them, and the gradient with respect to the logits.
double logits_bytes(const ActivationContext& context, double vocabulary) {
  return context.tokens * vocabulary * (context.compute_bytes + 3.0 * 4.0);
}

}  // namespace am::planner
