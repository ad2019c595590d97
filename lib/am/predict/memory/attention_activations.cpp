// Member functions of LayerActivations (layer_activations.h) for attention.
#include <algorithm>

#include "am/base/number.h"
#include "am/layout/context.h"
#include "am/model/gpu_operators.h"
#include "am/predict/memory/layer_activations.h"

namespace am::predict {
namespace {

using config::ActivationCheckpointing;
using model::Role;

// Numbers of elements per token of the query, key, value and output of attention on this rank, and
// of the output's gate.
struct HeadWidths {
  double query = 0.0, key = 0.0, value = 0.0, out = 0.0, gate = 0.0;
};

HeadWidths head_widths(const layout::LocalLayer& layer) {
  const model::AttentionSpec& attention = layer.spec().attention;
  HeadWidths widths;
  if (layer.has(Role::kKey)) {
    // The query matrix of gated attention returns queries and gates, half of its output each.
    widths.query = layer[Role::kQuery].out / (attention.gated ? 2.0 : 1.0);
    widths.gate = attention.gated ? widths.query : 0.0;
    widths.key = layer[Role::kKey].out;
    widths.value = layer[Role::kValue].out;
    widths.out = widths.query;
    return widths;
  }
  const layout::LocalModule& fused = layer[Role::kQkv];
  if (fused.slices.size() == 3) {
    widths.query = widths.out = fused.slices[0];
    widths.key = fused.slices[1];
    widths.value = fused.slices[2];
    return widths;
  }
  // Latent attention, and fused matrices whose rows are grouped by key head, are sharded by heads:
  // this rank has 1 / `parts` of all heads.
  const layout::LocalModule& up = fused.spec != nullptr ? fused : layer[Role::kKeyValueUp];
  const double parts = up.spec != nullptr ? as_double(up.spec->out) / up.out : 1.0;
  widths.query = as_double(attention.heads * attention.qk_width) / parts;
  widths.key = as_double(attention.key_heads * attention.qk_width) / parts;
  widths.value = as_double(attention.key_heads * attention.v_width) / parts;
  widths.out = as_double(attention.heads * attention.v_width) / parts;
  return widths;
}

// Returns the bytes that an RMSNorm saves if its weight and its input have different dtypes, for
// example a norm over heads under autocast. ATen then computes the norm by several operators. They
// save the norm's input in float32, one number per row, and, if the weight is trained, the
// normalised values, with `normalised_bytes` per element (0 if the weight is frozen).
double composite_norm_bytes(double rows, double width, double normalised_bytes) {
  return rows * (width * (4.0 + normalised_bytes) + 4.0);
}

}  // namespace

void LayerActivations::measure_attention() {
  const double N = context_.tokens;
  const double p = context_.product_bytes;
  const double rows = N / context_.sequence_parts;
  const model::AttentionSpec& attention = layer_.spec().attention;
  const auto head_width = as_double(attention.qk_width);
  const HeadWidths w = head_widths(layer_);
  if (layer_.has(Role::kInputNorm)) {
    at(layout::Saved::kInputNorm) =
        bytes_of_norm(Role::kInputNorm, rows, hidden_, context_.compute_bytes);
  }
  // A linear layer saves its input. If the input is sharded over the sequence, the layer saves the
  // gathered input.
  at(layout::Saved::kAttentionInput) =
      bytes_of_inputs(true) + adapted_bytes({Role::kQuery, Role::kKey, Role::kValue, Role::kQkv,
                                             Role::kQueryDown, Role::kKeyValueDown});
  // Flash attention does not save the scores. It saves its inputs, its output, and the log-sum-exp
  // per token and head (Dao et al., 2022).
  at(layout::Saved::kHeads) =
      N * (w.query + w.gate + key_value_width()) * p + latent_bytes(Role::kQueryDownNorm) +
      latent_bytes(Role::kKeyValueDownNorm) + adapted_bytes({Role::kQueryUp, Role::kKeyValueUp});
  at(layout::Saved::kAttentionOutput) = N * w.out * p + adapted_bytes({Role::kAttentionOut});
  at(layout::Saved::kAttentionStatistics) = N * w.query / head_width * 4.0;
  // Under Ulysses, the all-to-all after attention returns the output in a new tensor, and flash
  // attention's own output is saved too.
  if (exchanges_heads() && !attends_by_blocks())
    at(layout::Saved::kAttentionStatistics) += N * w.out * p;
  if (!layer_.has(Role::kQueryNorm)) return;
  const double normed = attention.norms_span_heads ? 2.0 * N : N * (w.query + w.key) / head_width;
  const double width = N * (w.query + w.key) / normed;
  // Rotated queries and keys have the dtype of RoPE's tables of cosines and sines, which autocast
  // does not narrow.
  at(layout::Saved::kHeadNorms) =
      attention.norms_follow_rope
          ? bytes_of_norm(Role::kQueryNorm, normed, width, context_.compute_bytes)
          : bytes_of_product_norm(Role::kQueryNorm, normed, width);
  at(layout::Saved::kHeadNormInputs) = N * (w.query + w.key) * p;
}

// Returns the bytes that a norm saves if the norm reads the output of a projection. Under autocast,
// this output has another dtype than the norm's weight.
double LayerActivations::bytes_of_product_norm(Role role, double rows, double width) const {
  const double p = context_.product_bytes;
  const bool composite =
      context_.casts() && layer_.spec().find(role)->norm == model::NormKind::kRms;
  return composite ? composite_norm_bytes(rows, width, layer_[role].trains ? p : 0.0)
                   : bytes_of_norm(role, rows, width, p);
}

// Returns the bytes that are saved for a low-rank vector of latent attention: the bytes that the
// vector's norm (`role`) saves, and the norm's output. A linear layer saves this output, gathered
// over the sequence, so the output counts for all N tokens. Returns 0 if the layer has no norm in
// this role.
double LayerActivations::latent_bytes(Role role) const {
  if (!layer_.has(role)) return 0.0;
  const double width = as_double(layer_.spec().find(role)->out);
  return bytes_of_product_norm(role, context_.tokens / context_.sequence_parts, width) +
         context_.tokens * width * context_.product_bytes;
}

// Returns the number of elements of keys and values that attention saves per token. Under Ulysses,
// the number includes the copies of key heads.
double LayerActivations::key_value_width() const {
  const HeadWidths w = head_widths(layer_);
  if (!exchanges_heads()) return w.key + w.value;
  const auto heads = static_cast<int64_t>(w.key / as_double(layer_.spec().attention.qk_width));
  const int64_t copies =
      layout::key_head_copies(static_cast<int64_t>(context_.context_ranks), heads);
  return as_double(copies) * (w.key + w.value);
}

// Whether attention runs in blocks of queries (nn/attention/) instead of in a flash kernel.
bool LayerActivations::attends_by_blocks() const {
  const model::AttentionSpec& attention = layer_.spec().attention;
  if (context_.context_ranks > 1.0 && !exchanges_heads()) return true;
  const double length = context_.sequence * context_.context_ranks;
  const double window = as_double(attention.window.value_or(0));
  const bool plain = !(window > 0.0 && window < length) && !attention.sinks &&
                     attention.v_width == attention.qk_width;
  // Flash kernels on a GPU also run attention with windows, sinks, or values narrower than keys, in
  // 16-bit dtypes and at widths that the kernels support. They do not run attention with soft-caps
  // or ALiBi (nn/attention/flash.h).
  const bool flash = !context_.on_host && context_.product_bytes == 2.0 &&
                     model::flash_takes_widths(attention.qk_width, attention.v_width);
  return attention.softcap.has_value() || attention.alibi.has_value() || !(plain || flash);
}

// Returns the bytes of one block of queries of one sequence in attention's backward. The block has
// `rows` queries, which attend to `keys` keys. The live tensors are float32 copies of the queries,
// of the gradient of their outputs, and of the keys and values; the scores; the gradient of the
// scores; and the product of scores and gradient. If scores have a soft-cap, two more tensors of
// the size of the scores are live. `parts`: number of ranks over which heads are sharded. `copied`:
// whether keys and values must be copied to the memory layout that matmuls read.
double LayerActivations::block_bytes(double rows, double keys, double parts, bool copied) const {
  constexpr double kWide = 4.0;  // scores and sums are float32
  const model::AttentionSpec& attention = layer_.spec().attention;
  const HeadWidths w = head_widths(layer_);
  // If a rank computes a single head in float32, the block's queries already have the memory layout
  // that matmuls read, and are not copied.
  const bool alone =
      context_.product_bytes == kWide && w.query <= as_double(attention.qk_width) * parts;
  const double row = alone ? 0.0 : (w.query + w.out) * kWide;
  const double scores = w.query / as_double(attention.qk_width) * keys * kWide;
  return (rows * (row + scores * (attention.softcap.has_value() ? 5.0 : 3.0)) +
          (copied ? keys * key_value_width() * kWide : 0.0)) /
         parts;
}

// Returns the bytes that are live in the backward of attention over cp ranks, without the saved
// inputs and the gradient of the output. The live tensors are copies of keys and values that are
// gathered or sent to the next rank, gradients that are summed in float32, and the tensors of one
// block.
double LayerActivations::context_attention_bytes() const {
  constexpr double kWide = 4.0;
  const double N = context_.tokens, p = context_.product_bytes, ranks = context_.context_ranks;
  const HeadWidths w = head_widths(layer_);
  const double pair = N * (w.key + w.value);
  const double chunk = context_.sequence / 2.0;
  const double window = as_double(layer_.spec().attention.window.value_or(0));
  const double rows = std::min(128.0, chunk);
  const double batch = N / context_.sequence;
  if (context_.context_method == "all_gather") {
    const double length = context_.sequence * ranks;
    const double keys = window > 0.0 ? std::min(length, window - 1.0 + rows) : length;
    const double blocks =
        ranks * pair * (p + kWide) + batch * block_bytes(rows, keys, 1.0, p != kWide);
    return N * w.query * p + std::max(blocks, (2.0 * ranks + 1.0) * pair * kWide);
  }
  // Number of buffers of keys and values in the ring: buffers in use, and buffers of messages in
  // flight.
  const double passing = ranks > 2.0 ? 3.0 : 2.0;
  const double keys = window > 0.0 ? std::min(chunk, window - 1.0 + rows) : chunk;
  return N * (w.query * kWide + w.out * p) + pair * (passing * p + 3.0 * kWide) +
         batch * block_bytes(rows, keys, 1.0, p != kWide);
}

// Returns the bytes of activations that are live in attention's backward if attention runs in
// blocks, minus kept() and recomputed(), which callers add. Returns 0 with a flash kernel. The live
// tensors are the gradients of the layer's output, of attention's output and of attention's inputs,
// and the tensors of one block. The saved tensors of the feed-forward and attention's output are
// already freed.
double LayerActivations::attention_backward() const {
  constexpr double kRowsOfABlock = 128.0;
  constexpr double kWide = 4.0;
  if (!attends_by_blocks()) return 0.0;
  const double p = context_.product_bytes;
  const double N = context_.tokens;
  const HeadWidths w = head_widths(layer_);
  double gradients = hidden_bytes(context_, hidden_) + N * w.out * p;
  if (context_.context_ranks > 1.0 && !exchanges_heads()) {
    gradients += context_attention_bytes();
  } else {
    const double length = context_.sequence * context_.context_ranks;
    const double window = as_double(layer_.spec().attention.window.value_or(0));
    const double rows = std::min(kRowsOfABlock, length);
    const double keys = window > 0.0 ? std::min(length, window - 1.0 + rows) : length;
    // Keys and values are copied, with one exception: under Ulysses with one key head per rank,
    // float32 keys and values already have the memory layout that matmuls read.
    const double head =
        as_double(layer_.spec().attention.qk_width + layer_.spec().attention.v_width);
    const bool copied =
        p != kWide || !exchanges_heads() || key_value_width() > head * context_.context_ranks;
    gradients += N * (w.query * p + key_value_width() * kWide) +
                 N / context_.sequence * block_bytes(rows, keys, context_.context_ranks, copied);
  }
  static constexpr layout::SavedSet kGone = {layout::Saved::kOtherNorms,
                                             layout::Saved::kAttentionOutput,
                                             layout::Saved::kSumAfterAttention,
                                             layout::Saved::kFeedForwardNormOutput,
                                             layout::Saved::kFeedForwardInput,
                                             layout::Saved::kRouting,
                                             layout::Saved::kRoutedTokens,
                                             layout::Saved::kGate,
                                             layout::Saved::kUp,
                                             layout::Saved::kCastAttentionOut,
                                             layout::Saved::kCastFeedForward};
  // During attention's backward, a fully checkpointed layer has recomputed all saved tensors. Its
  // recomputed output and the gradient of that output stay live until the layer's backward ends.
  const bool whole = mode_ == ActivationCheckpointing::kFull;
  const layout::SavedSet saved =
      layout::kept_under(whole ? ActivationCheckpointing::kOff : mode_, layer_.spec().residual);
  const double left =
      sum(saved.without(kGone)) + (whole ? 2.0 * hidden_bytes(context_, hidden_) : 0.0);
  return gradients + left - kept() - recomputed();
}

}  // namespace am::predict
