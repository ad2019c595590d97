#include "am/predict/memory/layer_activations.h"

#include <algorithm>
#include <utility>

#include "am/base/number.h"
#include "am/predict/memory/expert_activations.h"

namespace am::predict {
namespace {

using config::ActivationCheckpointing;
using model::Role;

// Returns ExpertRows::kept per token of the micro-batch on this rank: the number of rows (copies of
// a token, one for each of its experts) whose gate and up outputs are saved. 0 without experts.
double rows_of_token(const ActivationContext& context, const layout::LocalLayer& layer) {
  const auto& router = layer.spec().router;
  return router.has_value() ? expert_rows(context, *router).kept / context.tokens : 0.0;
}

// Widths on this rank (elements per token) of the output of gate, of the output of up, and of the
// input of the down projection. Each is a sum over the dense feed-forward, the shared experts and
// the saved rows of routed experts. If one matrix computes gate and up of the routed experts, a
// checkpointing mode keeps both outputs or none, so both count as `up`.
struct WideWidths {
  double gate = 0.0, up = 0.0, down_in = 0.0;
};

WideWidths wide_widths(const ActivationContext& context, const layout::LocalLayer& layer) {
  const double taken = rows_of_token(context, layer);
  WideWidths widths;
  widths.gate = layer[Role::kGate].out + layer[Role::kGateUp].out / 2.0 +
                layer[Role::kSharedGate].out + taken * layer[Role::kExpertGate].out;
  widths.up = layer[Role::kUp].out + layer[Role::kGateUp].out / 2.0 + layer[Role::kSharedUp].out +
              taken * (layer[Role::kExpertUp].out + layer[Role::kExpertGateUp].out);
  widths.down_in =
      layer[Role::kDown].in + layer[Role::kSharedDown].in + taken * layer[Role::kExpertDown].in;
  return widths;
}

}  // namespace

LayerActivations::LayerActivations(const ActivationContext& context, const layout::Layout& layout,
                                   int64_t rank, const model::Unit& layer, bool first_trained)
    : context_(context),
      layer_(layout, rank, layer),
      mode_(context.checkpointing_of(layer.layer)),
      hidden_(as_double(layout.inventory.spec.find(Role::kEmbedding)->in)) {
  at(layout::Saved::kLayerInput) = hidden_bytes(context_, hidden_);
  measure_attention();
  measure_feed_forward();
  measure_casts();
  if (first_trained) begin_gradients();
}

void LayerActivations::measure_feed_forward() {
  const double N = context_.tokens;
  const double p = context_.product_bytes;
  const double rows = N / context_.sequence_parts;
  const WideWidths w = wide_widths(context_, layer_);
  if (layer_.has(Role::kPreFeedForwardNorm)) {
    at(layout::Saved::kOtherNorms) +=
        bytes_of_norm(Role::kPreFeedForwardNorm, rows, hidden_, context_.compute_bytes);
  }
  // Norms after attention or the feed-forward read the output of a projection.
  for (const Role role : {Role::kPostAttentionNorm, Role::kPostFeedForwardNorm}) {
    if (layer_.has(role))
      at(layout::Saved::kOtherNorms) += bytes_of_product_norm(role, rows, hidden_);
  }
  // If attention and the feed-forward are parallel blocks, their two norms read the same tensor.
  // Autograd saves this tensor once, but kInputNorm and kOtherNorms both contain it.
  if (layer_.spec().residual == model::Residual::kParallelTwoNorms) {
    at(layout::Saved::kOtherNorms) -= rows * hidden_ * context_.compute_bytes;
  }
  const bool single = layer_.spec().single();
  if (single && !layer_.has(Role::kPreFeedForwardNorm)) return;
  if (!layer_.spec().parallel() && !single) {
    at(layout::Saved::kSumAfterAttention) = hidden_bytes(context_, hidden_);
  }
  // If attention and the feed-forward share one input norm, both read the norm's output. Copies of
  // this output that are counted for attention are not counted again.
  const bool shares = layer_.spec().residual == model::Residual::kParallelOneNorm;
  const double before = shares ? layer_.trained_readers(true) : 0.0;
  at(layout::Saved::kFeedForwardInput) =
      shares && context_.sequence_parts == 1.0
          ? N * hidden_ * p *
                (kept_inputs(before + layer_.trained_readers(false)) - kept_inputs(before))
          : bytes_of_inputs(false);
  at(layout::Saved::kFeedForwardInput) += adapted_bytes({Role::kGate, Role::kUp, Role::kGateUp});
  if (!shares || context_.casts() || context_.sequence_parts > 1.0) {
    at(layout::Saved::kFeedForwardNormOutput) = hidden_bytes(context_, hidden_);
  }
  at(layout::Saved::kGate) = N * w.gate * p;
  at(layout::Saved::kUp) = N * w.up * p;
  if (layer_.spec().router.has_value()) measure_experts();
}

void LayerActivations::measure_experts() {
  const ExpertBytes experts = expert_bytes(context_, layer_, hidden_);
  at(layout::Saved::kFeedForwardInput) =
      experts.input + adapted_bytes({Role::kSharedGate, Role::kSharedUp, Role::kSharedWeigher});
  at(layout::Saved::kRouting) = experts.routing;
  share_of_sum_ = experts.share_of_sum;
  at(layout::Saved::kRoutedTokens) = experts.routed;
  // If the down projection of the shared experts has an adapter (LoRA), autograd saves the
  // projection's input as a separate tensor. If a gate scales the projection's output, autograd
  // also saves this output.
  if (layer_[Role::kSharedDown].rank == 0.0) return;
  const double weighed = layer_.has(Role::kSharedWeigher) ? hidden_ : 0.0;
  at(layout::Saved::kUp) +=
      context_.tokens * (layer_[Role::kSharedDown].in + weighed) * context_.product_bytes +
      adapted_bytes({Role::kSharedDown});
}

void LayerActivations::measure_casts() {
  const double out = layer_.numel({Role::kAttentionOut});
  const double feed_forward =
      layer_.numel({Role::kGate, Role::kUp, Role::kGateUp, Role::kDown, Role::kExpertGate,
                    Role::kExpertUp, Role::kExpertGateUp, Role::kExpertDown, Role::kSharedGate,
                    Role::kSharedUp, Role::kSharedDown, Role::kSharedWeigher});
  // If the down projection has an adapter (LoRA), backward recomputes the projection in every
  // checkpointing mode and casts its weight again (nn/decoder_layer.cpp), so no cast copy is kept.
  const double again = layer_[Role::kDown].rank > 0.0 ? layer_.numel({Role::kDown}) : 0.0;
  // The router's weight and correction are not cast, because the router computes in float32
  // (nn/experts/router.h).
  const double wide = layer_.numel({Role::kRouter, Role::kRouterCorrection});
  at(layout::Saved::kCastAttentionOut) = cast_weights_bytes(context_, out);
  at(layout::Saved::kCastFeedForward) = cast_weights_bytes(context_, feed_forward - again);
  at(layout::Saved::kCastOthers) =
      cast_weights_bytes(context_, layer_.numel() - out - feed_forward - wide);
}

// Returns the bytes that the adapters (LoRA) of these modules save beside the modules' inputs.
double LayerActivations::adapted_bytes(std::initializer_list<Role> roles) const {
  return context_.tokens * layer_.adapter_widths(roles) * context_.product_bytes;
}

// Sets the bytes of the operators before the layer's first trained parameter to 0. Called if no
// parameter before the layer is trained: these operators then save nothing.
void LayerActivations::begin_gradients() {
  const auto nothing = [this](layout::SavedSet saved) {
    for (size_t i = 0; i < layout::kSavedKinds; ++i) {
      if (saved.has(static_cast<layout::Saved>(i))) bytes_[i] = 0.0;
    }
  };
  if (!layer_[Role::kInputNorm].trains) nothing({layout::Saved::kInputNorm});
  if (layer_.trains_in_attention()) return;
  nothing({layout::Saved::kHeads, layout::Saved::kHeadNorms, layout::Saved::kHeadNormInputs,
           layout::Saved::kAttentionStatistics, layout::Saved::kCastOthers});
  // kLayerInput is the input of the layer's first checkpointed segment. Under "selective",
  // attention is a segment of its own, unless attention and the feed-forward are parallel blocks.
  // Without a trained parameter, backward does not recompute attention, so the segment's input is
  // not saved.
  if (mode_ != ActivationCheckpointing::kFull && !layer_.spec().parallel()) {
    nothing({layout::Saved::kLayerInput});
  }
  if (layer_[Role::kAttentionOut].reads_input() || layer_[Role::kPostAttentionNorm].trains) return;
  nothing({layout::Saved::kAttentionOutput, layout::Saved::kCastAttentionOut});
  if (!layer_[Role::kPreFeedForwardNorm].trains) {
    const double after =
        layer_.has(Role::kPostFeedForwardNorm)
            ? bytes_of_product_norm(Role::kPostFeedForwardNorm,
                                    context_.tokens / context_.sequence_parts, hidden_)
            : 0.0;
    at(layout::Saved::kOtherNorms) = std::min(at(layout::Saved::kOtherNorms), after);
  }
}

double LayerActivations::bytes_of_norm(Role role, double rows, double width,
                                       double input_bytes) const {
  return norm_bytes(rows, width, input_bytes, layer_.spec().find(role)->norm,
                    context_.compute_bytes);
}

// Returns the bytes of the hidden state that the first projections of attention (`attention` true)
// or of the feed-forward save. Under sequence parallelism, projections that tp shards save the
// gathered hidden state, and other projections save only this rank's part of the hidden state.
double LayerActivations::bytes_of_inputs(bool attention) const {
  const double whole = context_.tokens * hidden_ * context_.product_bytes;
  const double gathering = layer_.trained_readers(attention, true);
  const double others = layer_.trained_readers(attention, false);
  if (context_.sequence_parts == 1.0) return whole * kept_inputs(gathering + others);
  return whole * kept_inputs(gathering) + whole / context_.sequence_parts * kept_inputs(others);
}

// Returns the number of copies of one input that `trained` matmuls save for the gradients of their
// weights: one tensor for all matmuls, or under autocast one cast copy for each matmul.
double LayerActivations::kept_inputs(double trained) const {
  return context_.casts() ? trained : std::min(trained, 1.0);
}

double LayerActivations::sum(layout::SavedSet saved) const {
  double total = 0.0;
  for (size_t i = 0; i < layout::kSavedKinds; ++i) {
    if (saved.has(static_cast<layout::Saved>(i))) total += bytes_[i];
  }
  return total;
}

// Returns the bytes that a feed-forward recomputes if it is a checkpointed segment. Under
// "selective" the segment begins with the feed-forward's norm, and the output of the gate
// projection is kept; under "mlp" the segment begins after the norm. The other segment under
// "selective", attention's projections, recomputes fewer bytes and is not counted.
double LayerActivations::recomputed_feed_forward() const {
  const bool selective = mode_ == ActivationCheckpointing::kSelective;
  const double again = sum({layout::Saved::kCastFeedForward, layout::Saved::kFeedForwardInput,
                            layout::Saved::kRoutedTokens, layout::Saved::kUp,
                            selective ? layout::Saved::kOtherNorms : layout::Saved::kGate});
  if (layer_.spec().residual == model::Residual::kParallelOneNorm) return again;
  // Subtracts a tensor that `again` contains although it is live already: under "selective" the
  // norm's input, under "mlp" the norm's output, which the projections read. Under "mlp" with
  // sequence parallelism or casts, the projections read a gathered or cast copy, and nothing is
  // subtracted.
  const bool other_input = context_.sequence_parts > 1.0 || context_.casts();
  if (!selective && other_input) return again;
  return std::max(0.0, again - hidden_bytes(context_, hidden_));
}

double LayerActivations::passing() const {
  if (!layer_.spec().router.has_value()) return 0.0;
  const double input = hidden_bytes(context_, hidden_) - bytes(layout::Saved::kLayerInput);
  return combining_bytes(context_, layer_, hidden_) + input;
}

double LayerActivations::recomputed() const {
  if (mode_ == ActivationCheckpointing::kOff) return 0.0;
  if (mode_ != ActivationCheckpointing::kFull) return recomputed_feed_forward();
  return std::max(0.0,
                  sum(layout::kept_under(ActivationCheckpointing::kOff, layer_.spec().residual)) +
                      share_of_sum_ - kept());
}

// expert_activations.h describes the moments of BackwardBytes in layers with experts. In a dense
// feed-forward, the gradients of the activation, of gate and of up are live at `first`, with the
// gradient of the layer's output, which the residual also needs. At `later`, the gradients of gate
// and up have replaced the saved outputs of gate and up, and the gradient of the feed-forward's
// input is live. A checkpointed layer runs the backward of the down projection separately, so the
// gradient of this projection's weight is already in the reduction's buffer at `first`. Under
// sequence parallelism the down projection gathers the gradient of its output.
BackwardBytes LayerActivations::backward() const {
  BackwardBytes bytes =
      layer_.spec().router.has_value()
          ? expert_backward(context_, layer_, hidden_, mode_ == ActivationCheckpointing::kSelective)
          : feed_forward_backward();
  bytes.attention = attention_backward();
  const double copies = fp8_copies();
  bytes.first += copies;
  bytes.later += copies;
  if (bytes.attention > 0.0) bytes.attention += copies;
  return bytes;
}

// Returns the bytes that the largest FP8 product of backward needs besides its operands
// (nn/fused/fp8.cpp). On a GPU, the product scales its operands one after the other: each is copied
// to float32 and then kept in FP8. On the CPU, an FP8 copy and a float32 copy of each operand are
// live at the same time, together with a float32 result.
double LayerActivations::fp8_copies() const {
  if (!context_.fp8) return 0.0;
  constexpr double kWide = 4.0, kFp8 = 1.0;
  const auto bytes_of = [&](double a, double b, double product) {
    if (context_.on_host) return (kWide + kFp8) * (a + b) + kWide * product;
    return std::max((kWide + kFp8) * a, kFp8 * a + (kWide + kFp8) * b);
  };
  double largest = 0.0;
  for (const layout::LocalModule& module : layer_.modules()) {
    if (module.spec == nullptr || !model::multiplies_in_fp8(*module.spec)) continue;
    const double N = context_.tokens, weight = module.in * module.out;
    largest = std::max(largest, bytes_of(N * module.out, weight, N * module.in));
    if (!module.trains) continue;
    largest = std::max(largest, bytes_of(N * module.out, N * module.in, weight));
  }
  return largest;
}

BackwardBytes LayerActivations::feed_forward_backward() const {
  const WideWidths w = wide_widths(context_, layer_);
  const double hidden = hidden_bytes(context_, hidden_);
  const double gathered = context_.sequence_parts > 1.0 ? hidden * context_.sequence_parts : 0.0;
  const double wide = context_.tokens * (w.gate + w.up + w.down_in) * context_.product_bytes;
  const double copy = layer_[Role::kDown].trains ? transposed_copy(context_, w.down_in) : 0.0;
  return {.first = hidden + gathered + wide,
          .later = 2.0 * hidden + copy,
          .packed_first = mode_ != ActivationCheckpointing::kOff};
}

LayerActivations::Owed LayerActivations::owed() const {
  using enum model::Space;
  Owed owed;
  owed.all = bytes_of_inputs(true) + bytes_of_inputs(false);
  const double taken = rows_of_token(context_, layer_);
  bool reads_rows = false;  // the input rows of the experts' gate and up are already counted
  for (const layout::LocalModule& module : layer_.modules()) {
    if (module.spec == nullptr || module.spec->in == 0 || !module.trains) continue;
    const model::Space from = module.spec->from, to = module.spec->to;
    const bool routed = module.spec->kind == model::ModuleKind::kExpert;
    const double row = context_.tokens * (routed ? taken : 1.0) * context_.product_bytes;
    const bool counted = (from == kHidden && !routed) || (from == kRouted && reads_rows);
    reads_rows = reads_rows || from == kRouted;
    const double input = counted ? 0.0 : row * module.in;
    owed.all += row * module.out + input;
    const bool of_attention =
        from == kHeads || from == kLatent || to == kHeads || to == kKeyHeads || to == kLatent;
    if (of_attention) continue;
    owed.feed_forward += row * module.out + input;
    if (from != kWide) continue;
    owed.down_input += input;
    owed.down += row * module.out + input;
  }
  return owed;
}

double layer_activations(const ActivationContext& context, const layout::Layout& layout,
                         int64_t rank, const model::Unit& layer) {
  return LayerActivations(context, layout, rank, layer).kept();
}

}  // namespace am::predict
