#include "am/planner/activations.h"

#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include "am/base/text.h"
#include "am/model/layer_profile.h"
#include "am/planner/dtype_size.h"
#include "am/planner/precision.h"

namespace am::planner {
namespace {

// This rank's slice of what a layer's projection gives (dim 0) or takes (dim 1). An output that is
// gathered is whole.
double width(const Layout& layout, int64_t rank, const model::Unit& layer, std::string_view weight,
             size_t dim) {
  for (const int index : layer.parameters) {
    const ParameterLayout& parameter = layout.parameters[static_cast<size_t>(index)];
    if (!ends_with(parameter.name, weight)) continue;
    const auto style = layout.tp.parameters[static_cast<size_t>(index)].style;
    const bool gathered = dim == 0 && style == model::TpStyle::kColwiseRep;
    const Shape shape = gathered ? parameter.shape : parameter.tp_shape(layout.mesh, rank);
    return static_cast<double>(shape[dim]);
  }
  return 0.0;
}

// Hidden states between layers, as this rank has them.
double hidden_bytes(const ActivationContext& context, const model::ModelConfig& config) {
  return context.tokens * static_cast<double>(config.hidden_size) / context.sequence_parts *
         context.compute_bytes;
}

// Ends of the names of matrices, in all families.
using Names = std::vector<std::string_view>;
const Names kReadByAttention = {"self_attn.q_proj.weight",   "self_attn.k_proj.weight",
                                "self_attn.v_proj.weight",   "self_attn.qkv_proj.weight",
                                "self_attn.q_a_proj.weight", "self_attn.kv_a_proj_with_mqa.weight",
                                "attn.c_attn.weight",        "query_key_value.weight"};
const Names kReadByFeedForward = {"mlp.gate_proj.weight",
                                  "mlp.up_proj.weight",
                                  "mlp.gate_up_proj.weight",
                                  "mlp.fc1.weight",
                                  "mlp.c_fc.weight",
                                  "mlp.dense_h_to_4h.weight",
                                  "mlp.gate.weight",
                                  "block_sparse_moe.gate.weight",
                                  "mlp.router.weight",
                                  "mlp.shared_experts.gate_proj.weight",
                                  "mlp.shared_experts.up_proj.weight",
                                  "mlp.shared_expert.gate_proj.weight",
                                  "mlp.shared_expert.up_proj.weight",
                                  "mlp.shared_expert_gate.weight"};
const Names kAttentionOut = {"self_attn.o_proj.weight", "self_attn.dense.weight",
                             ".attn.c_proj.weight", "self_attention.dense.weight"};
const Names kDown = {"mlp.down_proj.weight", "mlp.fc2.weight", "mlp.c_proj.weight",
                     "mlp.dense_4h_to_h.weight"};
const Names kDense = {"mlp.gate_proj.weight",    "mlp.up_proj.weight", "mlp.gate_up_proj.weight",
                      "mlp.fc1.weight",          "mlp.c_fc.weight",    "mlp.dense_h_to_4h.weight",
                      "mlp.down_proj.weight",    "mlp.fc2.weight",     "mlp.c_proj.weight",
                      "mlp.dense_4h_to_h.weight"};

bool is_named(const ParameterLayout& parameter, const Names& weights) {
  return std::any_of(weights.begin(), weights.end(),
                     [&](std::string_view weight) { return ends_with(parameter.name, weight); });
}

// How many of the products with such matrices keep their input, which the matrix's gradient reads:
// of those that read one input it is one tensor, unless autocast narrows it for each.
double kept_inputs(const Layout& layout, const model::Unit& layer, bool casts,
                   const Names& weights) {
  double kept = 0.0;
  for (const int index : layer.parameters) {
    const ParameterLayout& parameter = layout.parameters[static_cast<size_t>(index)];
    if (parameter.trainable && is_named(parameter, weights)) kept += 1.0;
  }
  return casts ? kept : std::min(kept, 1.0);
}

// Elements that one token takes on this rank.
struct Widths {
  double query = 0, key = 0, value = 0, attention_out = 0;
  double latent = 0;                     // MLA's narrow vectors
  double gate = 0, up = 0, down_in = 0;  // experts: of all that a token takes
  double routed = 0;                     // hidden states sorted to their experts, and back
};

// Over how many tp ranks the layer's modules whose names have `part` in them are cut.
double tp_parts(const Layout& layout, const model::Unit& layer, std::string_view part) {
  for (const int index : layer.parameters) {
    const ParameterLayout& parameter = layout.parameters[static_cast<size_t>(index)];
    if (parameter.tp_dim.has_value() && parameter.name.find(part) != std::string::npos) {
      return static_cast<double>(layout.mesh.sizes().tp);
    }
  }
  return 1.0;
}

// Projections under Llama's names are measured where they are; fused ones, latent attention and
// experts follow from the layer's profile.
Widths widths(const model::ModelConfig& config, const Layout& layout, int64_t rank,
              const model::Unit& layer) {
  const model::LayerProfile profile = model::layer_profile(config, layer.layer);
  const model::AttentionProfile& a = profile.attention;
  const model::FeedForwardProfile& f = profile.feed_forward;
  Widths w;
  w.query = width(layout, rank, layer, "self_attn.q_proj.weight", 0);
  if (w.query > 0.0 && a.kv_lora_rank == 0) {
    w.key = width(layout, rank, layer, "self_attn.k_proj.weight", 0);
    w.value = width(layout, rank, layer, "self_attn.v_proj.weight", 0);
    w.attention_out = w.query;
  } else {
    // A rank has some of the heads where latent attention is cut; a fused matrix gives all of them.
    const double parts = tp_parts(layout, layer, "kv_b_proj");
    w.query = static_cast<double>(a.heads * a.qk_head_dim) / parts;
    w.key = static_cast<double>(a.key_value_heads * a.qk_head_dim) / parts;
    w.value = static_cast<double>(a.key_value_heads * a.v_head_dim) / parts;
    w.attention_out = static_cast<double>(a.heads * a.v_head_dim) / parts;
    // Each once as a norm's input and once as its output.
    w.latent = 2.0 * static_cast<double>(a.q_lora_rank + a.kv_lora_rank);
  }
  w.gate = width(layout, rank, layer, "mlp.gate_proj.weight", 0);
  if (w.gate > 0.0 && f.experts == 0) {
    w.up = width(layout, rank, layer, "mlp.up_proj.weight", 0);
    w.down_in = width(layout, rank, layer, "mlp.down_proj.weight", 1);
    return w;
  }
  const double parts = tp_parts(layout, layer, "mlp");
  const auto taken = static_cast<double>(f.experts_per_token);
  w.up = static_cast<double>(f.dense_width + f.shared_width) / parts +
         taken * static_cast<double>(f.expert_width);
  w.down_in = w.up;
  w.gate = f.gated ? w.up : 0.0;
  w.routed = 2.0 * taken * static_cast<double>(config.hidden_size);
  return w;
}

// RMSNorm of `rows` rows, its output not counted: its input, and a number a row for the root mean
// square (nn/fused/rms_norm.h).
double norm_bytes(double rows, double width, double compute_bytes) {
  return rows * (width * compute_bytes + std::max(4.0, compute_bytes));
}

// The same where the weight has another dtype than the input, as in a head's norm under autocast:
// ATen's operators keep their input in float32, its root mean square, and the normalised values.
double composite_norm_bytes(double rows, double width, double compute_bytes) {
  return rows * (width * (4.0 + compute_bytes) + 4.0);
}

}  // namespace

config::ActivationCheckpointing checkpointing_of(const config::Plan& plan) {
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) {
    return fsdp2->activation_checkpointing;
  }
  const bool on = std::visit(
      [](const auto& config) { return bool(config.activation_checkpointing); }, plan.strategy);
  return on ? config::ActivationCheckpointing::kFull : config::ActivationCheckpointing::kOff;
}

int64_t checkpointing_every(const config::Plan& plan) {
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  return fsdp2 != nullptr ? fsdp2->activation_checkpointing_every : 1;
}

config::ActivationCheckpointing ActivationContext::checkpointing_of(int layer) const {
  return (layer + 1) % checkpointing_every == 0 ? checkpointing
                                                : config::ActivationCheckpointing::kOff;
}

ActivationContext activation_context(const config::Plan& plan, const mesh::MeshLayout& mesh) {
  ActivationContext context;
  const mesh::MeshSizes& sizes = mesh.sizes();
  context.sequence = static_cast<double>(plan.train.seq_len) / static_cast<double>(sizes.cp);
  context.tokens = context.sequence * static_cast<double>(plan.train.micro_batch_size);
  context.compute_bytes = static_cast<double>(dtype_size(resolve_precision(plan).compute));
  context.product_bytes = context.compute_bytes;
  context.output_bytes = context.compute_bytes;
  context.checkpointing = checkpointing_of(plan);
  context.checkpointing_every = checkpointing_every(plan);
  context.on_host =
      std::visit([](const auto& config) { return config.backend; }, plan.strategy) == "gloo";
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) {
    if (fsdp2->sequence_parallel) context.sequence_parts = static_cast<double>(sizes.tp);
    if (fsdp2->autocast_dtype) {
      context.product_bytes = static_cast<double>(dtype_size(*fsdp2->autocast_dtype));
    }
    context.output_bytes = context.product_bytes;
    if (const auto& output = fsdp2->mp_policy.output_dtype) {
      context.output_bytes = static_cast<double>(dtype_size(*output));
    }
  }
  return context;
}

namespace {

// Flash attention saves its inputs, its output, and a logarithm per token and head instead of the
// scores (Dao et al., 2022).
void add_attention(const ActivationContext& context, const model::ModelConfig& config,
                   const model::Unit& layer, const Widths& w, std::vector<SavedTensor>& saved) {
  const double N = context.tokens;
  const double p = context.product_bytes;
  const auto heads_width =
      static_cast<double>(model::layer_profile(config, layer.layer).attention.qk_head_dim);
  saved.push_back({"queries, keys, values", N * (w.query + w.key + w.value + w.latent) * p});
  saved.push_back({"attention output", N * w.attention_out * p});
  saved.push_back({"attention statistics", N * w.query / heads_width * 4.0});
  const auto window = model::window_of(config, layer.layer);
  const bool windowed = window.has_value() && static_cast<double>(*window) < context.sequence;
  if (windowed) saved.push_back({"window mask", context.sequence * context.sequence * p});
}

// Elements of this rank's matrices in the layer whose names end so; none: all.
double matrix_numel(const Layout& layout, int64_t rank, const model::Unit& layer,
                    const Names& weights) {
  double numel_all = 0.0;
  for (const int index : layer.parameters) {
    const ParameterLayout& parameter = layout.parameters[static_cast<size_t>(index)];
    if (parameter.shape.size() < 2) continue;
    if (!weights.empty() && !is_named(parameter, weights)) continue;
    numel_all += static_cast<double>(numel(parameter.tp_shape(layout.mesh, rank)));
  }
  return numel_all;
}

}  // namespace

std::vector<SavedTensor> layer_tensors(const ActivationContext& context,
                                       const model::ModelConfig& config, const Layout& layout,
                                       int64_t rank, const model::Unit& layer) {
  const double N = context.tokens;
  const double c = context.compute_bytes;
  const double p = context.product_bytes;
  const double D = static_cast<double>(config.hidden_size);
  const double cut = context.sequence_parts;
  const Widths w = widths(config, layout, rank, layer);
  const model::LayerProfile profile = model::layer_profile(config, layer.layer);
  const double other_norms = static_cast<double>(profile.hidden_norms) - 1.0;
  const bool casts = p != c;
  const double of_attention = kept_inputs(layout, layer, casts, kReadByAttention);
  const double of_feed_forward = kept_inputs(layout, layer, casts, kReadByFeedForward);
  std::vector<SavedTensor> saved = {
      {"input norm", norm_bytes(N / cut, D, c)},
      // Gathered over the sequence where it was cut: a linear layer saves what it multiplies.
      {"input of q, k, v", N * D * p * of_attention},
      {"other norms", other_norms * norm_bytes(N / cut, D, c)},
      // A parallel block with one norm multiplies the same input.
      {"input of gate, up", other_norms > 0.0 ? N * D * p * of_feed_forward : 0.0},
      {"tokens of experts", N * w.routed * p},
      {"gate", N * w.gate * p},
      {"up", N * w.up * p},
      // Computed again from those two (nn/fused/swiglu.h); experts, of which am-run runs none, keep
      // it.
      {"input of down", w.gate > 0.0 && w.routed == 0.0 ? 0.0 : N * w.down_in * p},
      {"weights as cast", cast_weights_bytes(context, matrix_numel(layout, rank, layer, {}))},
  };
  add_attention(context, config, layer, w, saved);
  if (config.qk_norm) {
    const auto head_width = static_cast<double>(profile.attention.qk_head_dim);
    const double heads = N * (w.query + w.key) / head_width;
    saved.push_back({"q and k norms", casts ? composite_norm_bytes(heads, head_width, p)
                                            : norm_bytes(heads, head_width, p)});
  }
  return saved;
}

std::vector<SavedTensor> selective_tensors(const ActivationContext& context,
                                           const model::ModelConfig& config, const Layout& layout,
                                           int64_t rank, const model::Unit& layer) {
  const double N = context.tokens;
  const double hidden = hidden_bytes(context, config);
  const double p = context.product_bytes;
  const Widths w = widths(config, layout, rank, layer);
  const bool two_sums = model::layer_profile(config, layer.layer).hidden_norms > 1;
  std::vector<SavedTensor> saved = {
      {"input", hidden},
      {"sum after attention", two_sums ? hidden : 0.0},
      {"gate", N * w.gate * p},
      {"weight of o as cast",
       cast_weights_bytes(context, matrix_numel(layout, rank, layer, kAttentionOut))},
  };
  add_attention(context, config, layer, w, saved);
  if (config.qk_norm) saved.push_back({"inputs of q and k norms", N * (w.query + w.key) * p});
  return saved;
}

namespace {

// Of the feed-forward's matrices, as autocast narrows them.
double cast_feed_forward(const ActivationContext& context, const Layout& layout, int64_t rank,
                         const model::Unit& layer) {
  return cast_weights_bytes(context, matrix_numel(layout, rank, layer, kDense));
}

// All of a layer's but those inside its feed-forward, of which its input is kept.
std::vector<SavedTensor> mlp_tensors(const ActivationContext& context,
                                     const model::ModelConfig& config, const Layout& layout,
                                     int64_t rank, const model::Unit& layer) {
  std::vector<SavedTensor> saved = layer_tensors(context, config, layout, rank, layer);
  std::erase_if(saved, [](const SavedTensor& each) {
    return each.what == "gate" || each.what == "up" || each.what == "input of down" ||
           each.what == "input of gate, up";
  });
  saved.push_back({"input of the feed-forward", hidden_bytes(context, config)});
  for (SavedTensor& each : saved) {
    if (each.what != "weights as cast") continue;
    each.bytes -= cast_feed_forward(context, layout, rank, layer);
  }
  return saved;
}

double sum_of(const std::vector<SavedTensor>& tensors) {
  double total = 0.0;
  for (const SavedTensor& tensor : tensors) total += tensor.bytes;
  return total;
}

}  // namespace

double layer_activations(const ActivationContext& context, const model::ModelConfig& config,
                         const Layout& layout, int64_t rank, const model::Unit& layer) {
  switch (context.checkpointing_of(layer.layer)) {
    case config::ActivationCheckpointing::kFull:
      return hidden_bytes(context, config);
    case config::ActivationCheckpointing::kSelective:
      return sum_of(selective_tensors(context, config, layout, rank, layer));
    case config::ActivationCheckpointing::kMlp:
      return sum_of(mlp_tensors(context, config, layout, rank, layer));
    case config::ActivationCheckpointing::kOff:
      break;
  }
  return sum_of(layer_tensors(context, config, layout, rank, layer));
}

namespace {

// What a feed-forward that is a segment of its own computes again: under "selective" from the sum
// before its norm, and of the gate's product; under "mlp" from the norm's output. The projections,
// another segment under "selective", compute less.
double recomputed_feed_forward(const ActivationContext& context, const model::ModelConfig& config,
                               const Layout& layout, int64_t rank, const model::Unit& layer,
                               bool selective) {
  double bytes = cast_feed_forward(context, layout, rank, layer);
  for (const SavedTensor& each : layer_tensors(context, config, layout, rank, layer)) {
    const bool again = each.what == "input of gate, up" || each.what == "up" ||
                       each.what == (selective ? "other norms" : "gate");
    if (again) bytes += each.bytes;
  }
  // Gathering over the sequence, or narrowing, makes another tensor of the norm's output.
  const bool other_input =
      context.sequence_parts > 1.0 || context.product_bytes != context.compute_bytes;
  if (!selective && other_input) return bytes;
  return std::max(0.0, bytes - hidden_bytes(context, config));
}

}  // namespace

double recomputed_activations(const ActivationContext& context, const model::ModelConfig& config,
                              const Layout& layout, int64_t rank, const model::Unit& layer) {
  const config::ActivationCheckpointing kept = context.checkpointing_of(layer.layer);
  if (kept == config::ActivationCheckpointing::kOff) return 0.0;
  const bool two_sums = model::layer_profile(config, layer.layer).hidden_norms > 1;
  if (kept == config::ActivationCheckpointing::kMlp ||
      (kept == config::ActivationCheckpointing::kSelective && two_sums)) {
    return recomputed_feed_forward(context, config, layout, rank, layer,
                                   kept == config::ActivationCheckpointing::kSelective);
  }
  ActivationContext whole = context;
  whole.checkpointing = config::ActivationCheckpointing::kOff;
  return std::max(0.0, layer_activations(whole, config, layout, rank, layer) -
                           layer_activations(context, config, layout, rank, layer));
}

namespace {

// The product for a weight's gradient reads its left side transposed; on the host a copy is made of
// at most so many elements at a time.
double transposed_copy(const ActivationContext& context, double width) {
  const bool copies = context.on_host && context.product_bytes == 4.0;
  return copies ? std::min(context.tokens * width, static_cast<double>(kMostTransposed)) *
                      context.product_bytes
                : 0.0;
}

}  // namespace

// In the feed-forward's backward: the gradient of the layer's output, which also goes past it, and
// the gradients of the activation and of both its factors. Then those of the factors take the place
// of what was saved of them, beside the gradient of their input. A checkpointed layer runs the down
// projection's backward on its own, so that its weight's gradient is packed by then. Under sequence
// parallelism that projection reads its output's gradient gathered.
BackwardBytes layer_backward(const ActivationContext& context, const model::ModelConfig& config,
                             const Layout& layout, int64_t rank, const model::Unit& layer) {
  const Widths w = widths(config, layout, rank, layer);
  const double hidden = hidden_bytes(context, config);
  const double gathered = context.sequence_parts > 1.0 ? hidden * context.sequence_parts : 0.0;
  const double wide = context.tokens * (w.gate + w.up + w.down_in) * context.product_bytes;
  const bool checkpointed =
      context.checkpointing_of(layer.layer) != config::ActivationCheckpointing::kOff;
  const bool trains = kept_inputs(layout, layer, false, kDown) > 0.0;
  const double copy = trains ? transposed_copy(context, w.down_in) : 0.0;
  return {hidden + gathered + wide, 2.0 * hidden + copy, checkpointed};
}

BackwardBytes head_backward(const ActivationContext& context, const model::ModelConfig& config,
                            double vocabulary, bool head_trains) {
  const double hidden =
      context.tokens * static_cast<double>(config.hidden_size) * context.product_bytes;
  const double copy = head_trains ? transposed_copy(context, vocabulary) : 0.0;
  return {hidden + copy, hidden};
}

double embedding_activations(const ActivationContext& context) {
  return context.tokens * 8.0;  // the ids, int64
}

double final_norm_activations(const ActivationContext& context, const model::ModelConfig& config,
                              bool head_trains) {
  const auto width = static_cast<double>(config.hidden_size);
  return norm_bytes(context.tokens / context.sequence_parts, width, context.compute_bytes) +
         (head_trains ? context.tokens * width * context.product_bytes : 0.0);
}

// The loss reads the logits where they are, and its gradient takes their place
// (nn/fused/cross_entropy.h). A cast to the output dtype has both at once, in forward and in
// backward.
double logits_bytes(const ActivationContext& context, double vocabulary) {
  const bool casts = context.output_bytes != context.product_bytes;
  return context.tokens * vocabulary *
         (context.product_bytes + (casts ? context.output_bytes : 0.0));
}

double logits_gradient_bytes(const ActivationContext& context, double vocabulary) {
  return context.tokens * vocabulary * context.product_bytes;
}

double cast_weights_bytes(const ActivationContext& context, double numel) {
  return context.product_bytes == context.compute_bytes ? 0.0 : numel * context.product_bytes;
}

}  // namespace am::planner
