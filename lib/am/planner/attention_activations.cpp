// The half of layer_activations.h that is attention's.
#include <algorithm>

#include "am/base/number.h"
#include "am/model/gpu_operators.h"
#include "am/planner/context.h"
#include "am/planner/layer_activations.h"

namespace am::planner {
namespace {

using config::ActivationCheckpointing;
using model::Role;

// Elements that one token takes on this rank between the first and the last projections of
// attention.
struct HeadWidths {
  double query = 0.0, key = 0.0, value = 0.0, out = 0.0;
};

HeadWidths head_widths(const LocalLayer& layer) {
  const model::AttentionSpec& attention = layer.spec().attention;
  HeadWidths widths;
  if (layer.has(Role::kKey)) {
    widths.query = layer[Role::kQuery].out;
    widths.key = layer[Role::kKey].out;
    widths.value = layer[Role::kValue].out;
    widths.out = widths.query;
    return widths;
  }
  const LocalModule& fused = layer[Role::kQkv];
  if (fused.slices.size() == 3) {
    widths.query = widths.out = fused.slices[0];
    widths.key = fused.slices[1];
    widths.value = fused.slices[2];
    return widths;
  }
  // A rank has some of the heads where latent attention, or a matrix by key head, is cut.
  const LocalModule& up = fused.spec != nullptr ? fused : layer[Role::kKeyValueUp];
  const double parts = up.spec != nullptr ? as_double(up.spec->out) / up.out : 1.0;
  widths.query = as_double(attention.heads * attention.qk_width) / parts;
  widths.key = as_double(attention.key_heads * attention.qk_width) / parts;
  widths.value = as_double(attention.key_heads * attention.v_width) / parts;
  widths.out = as_double(attention.heads * attention.v_width) / parts;
  return widths;
}

// What a norm keeps where its weight has another dtype than its input, as in a head's norm under
// autocast: ATen's operators keep their input in float32, its root mean square, and for the
// weight's gradient the normalised values.
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
    at(Saved::kInputNorm) = bytes_of_norm(Role::kInputNorm, rows, hidden_, context_.compute_bytes);
  }
  // Gathered over the sequence where it was cut: a linear layer saves what it multiplies.
  at(Saved::kAttentionInput) =
      bytes_of_inputs(true) + adapted_bytes({Role::kQuery, Role::kKey, Role::kValue, Role::kQkv,
                                             Role::kQueryDown, Role::kKeyValueDown});
  // Flash attention saves its inputs, its output, and a logarithm per token and head instead of the
  // scores (Dao et al., 2022).
  at(Saved::kHeads) = N * (w.query + key_value_width()) * p + latent_bytes(Role::kQueryDownNorm) +
                      latent_bytes(Role::kKeyValueDownNorm) +
                      adapted_bytes({Role::kQueryUp, Role::kKeyValueUp});
  at(Saved::kAttentionOutput) = N * w.out * p + adapted_bytes({Role::kAttentionOut});
  at(Saved::kAttentionStatistics) = N * w.query / head_width * 4.0;
  // What comes back from other ranks is another tensor than what flash attention gave.
  if (exchanges_heads() && !attends_by_blocks()) at(Saved::kAttentionStatistics) += N * w.out * p;
  if (!layer_.has(Role::kQueryNorm)) return;
  const double normed = attention.norms_span_heads ? 2.0 * N : N * (w.query + w.key) / head_width;
  const double width = N * (w.query + w.key) / normed;
  at(Saved::kHeadNorms) = bytes_of_product_norm(Role::kQueryNorm, normed, width);
  at(Saved::kHeadNormInputs) = N * (w.query + w.key) * p;
}

// Of a norm that reads what a product gave.
double LayerActivations::bytes_of_product_norm(Role role, double rows, double width) const {
  const double p = context_.product_bytes;
  const bool composite =
      context_.casts() && layer_.spec().find(role)->norm == model::NormKind::kRms;
  return composite ? composite_norm_bytes(rows, width, layer_[role].trains ? p : 0.0)
                   : bytes_of_norm(role, rows, width, p);
}

// A narrow vector of latent attention: what its norm keeps, and the norm's output, which is
// multiplied, gathered over the sequence where that was cut; 0 where the layer has none.
double LayerActivations::latent_bytes(Role role) const {
  if (!layer_.has(role)) return 0.0;
  const double width = as_double(layer_.spec().find(role)->out);
  return bytes_of_product_norm(role, context_.tokens / context_.sequence_parts, width) +
         context_.tokens * width * context_.product_bytes;
}

// Elements of keys and values of one position, as attention saves them.
double LayerActivations::key_value_width() const {
  const HeadWidths w = head_widths(layer_);
  if (!exchanges_heads()) return w.key + w.value;
  const auto heads = static_cast<int64_t>(w.key / as_double(layer_.spec().attention.qk_width));
  const int64_t copies = key_head_copies(static_cast<int64_t>(context_.context_ranks), heads);
  return as_double(copies) * (w.key + w.value);
}

// Whether it does not go by ATen's flash kernel (nn/attention/).
bool LayerActivations::attends_by_blocks() const {
  const model::AttentionSpec& attention = layer_.spec().attention;
  if (context_.context_ranks > 1.0 && !exchanges_heads()) return true;
  const double length = context_.sequence * context_.context_ranks;
  const double window = as_double(attention.window.value_or(0));
  const bool plain = !(window > 0.0 && window < length) && !attention.sinks &&
                     attention.v_width == attention.qk_width;
  // On GPUs flash kernels take all but soft-caps (nn/attention/flash.h).
  const bool flash = !context_.on_host && context_.product_bytes == 2.0 &&
                     model::flash_takes_widths(attention.qk_width, attention.v_width);
  return attention.softcap.has_value() || !(plain || flash);
}

// Of one block of queries of one sequence in backward: its rows, the keys and values that it sees,
// its scores, their gradient and a product of both; of capped scores two more. `parts`: over how
// many ranks heads are dealt. `copied`: keys and values do not lie as the products read them.
double LayerActivations::block_bytes(double rows, double keys, double parts, bool copied) const {
  constexpr double kWide = 4.0;  // scores and sums are float32
  const model::AttentionSpec& attention = layer_.spec().attention;
  const HeadWidths w = head_widths(layer_);
  // One head alone lies as the products read it.
  const bool alone =
      context_.product_bytes == kWide && w.query <= as_double(attention.qk_width) * parts;
  const double row = alone ? 0.0 : (w.query + w.out) * kWide;
  const double scores = w.query / as_double(attention.qk_width) * keys * kWide;
  return (rows * (row + scores * (attention.softcap.has_value() ? 5.0 : 3.0)) +
          (copied ? keys * key_value_width() * kWide : 0.0)) /
         parts;
}

// What backward of attention over ranks has beside its inputs and its output's gradient, by the
// method: of keys and values copies as they are passed on or gathered, and sums in float32.
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
  // Under way are the next keys, and the sums that the ranks before and after this one made.
  const double passing = ranks > 2.0 ? 3.0 : 2.0;
  const double keys = window > 0.0 ? std::min(chunk, window - 1.0 + rows) : chunk;
  return N * (w.query * kWide + w.out * p) + pair * (passing * p + 3.0 * kWide) +
         batch * block_bytes(rows, keys, 1.0, p != kWide);
}

// In attention's backward, where it goes by blocks; 0 where ATen's flash kernel runs. What the
// feed-forward saved is gone, and so is attention's output. There are the gradients of the layer's
// output, of attention's and of its inputs, and what one block takes.
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
    // One key head alone lies as the products read it.
    const double head =
        as_double(layer_.spec().attention.qk_width + layer_.spec().attention.v_width);
    const bool copied =
        p != kWide || !exchanges_heads() || key_value_width() > head * context_.context_ranks;
    gradients += N * (w.query * p + key_value_width() * kWide) +
                 N / context_.sequence * block_bytes(rows, keys, context_.context_ranks, copied);
  }
  static constexpr SavedSet kGone = {Saved::kOtherNorms,
                                     Saved::kAttentionOutput,
                                     Saved::kSumAfterAttention,
                                     Saved::kFeedForwardNormOutput,
                                     Saved::kFeedForwardInput,
                                     Saved::kRouting,
                                     Saved::kRoutedTokens,
                                     Saved::kGate,
                                     Saved::kUp,
                                     Saved::kCastAttentionOut,
                                     Saved::kCastFeedForward};
  // A layer that is one segment has all of it again by then, and its second output with the
  // gradient that came for it until it is over.
  const bool whole = mode_ == ActivationCheckpointing::kFull;
  const SavedSet saved =
      kept_under(whole ? ActivationCheckpointing::kOff : mode_, layer_.spec().residual);
  const double left =
      sum(saved.without(kGone)) + (whole ? 2.0 * hidden_bytes(context_, hidden_) : 0.0);
  return gradients + left - kept() - recomputed();
}

}  // namespace am::planner
