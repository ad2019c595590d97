#include "am/planner/layer_activations.h"

#include <algorithm>
#include <utility>

#include "am/base/number.h"
#include "am/planner/expert_activations.h"

namespace am::planner {
namespace {

using config::ActivationCheckpointing;
using model::Role;

double out_of(const LocalLayer& layer, Role role) {
  const model::ModuleSpec* module = layer.spec().find(role);
  return module == nullptr ? 0.0 : as_double(module->out);
}

// Rows of experts to a token of the micro-batch on this rank.
double rows_of_token(const ActivationContext& context, const LocalLayer& layer) {
  const auto& router = layer.spec().router;
  return router.has_value() ? expert_rows(context, *router).kept / context.tokens : 0.0;
}

// Elements that one token takes on this rank inside of the feed-forward; of experts all that it
// takes. Where experts' gates and ups are one matrix, checkpointing keeps both or none: they count
// as up.
struct WideWidths {
  double gate = 0.0, up = 0.0, down_in = 0.0;
};

WideWidths wide_widths(const ActivationContext& context, const LocalLayer& layer) {
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

LayerActivations::LayerActivations(const ActivationContext& context, const Layout& layout,
                                   int64_t rank, const model::Unit& layer, bool first_trained)
    : context_(context),
      layer_(layout, rank, layer),
      mode_(context.checkpointing_of(layer.layer)),
      hidden_(out_of(layer_, Role::kAttentionOut)) {
  at(Saved::kLayerInput) = hidden_bytes(context_, hidden_);
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
  // A norm behind a product reads what that gave.
  for (const auto& [role, bytes] : {std::pair{Role::kPreFeedForwardNorm, context_.compute_bytes},
                                    {Role::kPostAttentionNorm, p},
                                    {Role::kPostFeedForwardNorm, p}}) {
    if (layer_.has(role)) at(Saved::kOtherNorms) += bytes_of_norm(role, rows, hidden_, bytes);
  }
  // Side by side both norms read one tensor.
  if (layer_.spec().residual == model::Residual::kParallelTwoNorms) {
    at(Saved::kOtherNorms) -= rows * hidden_ * context_.compute_bytes;
  }
  if (!layer_.spec().parallel()) at(Saved::kSumAfterAttention) = hidden_bytes(context_, hidden_);
  // Behind one norm the feed-forward multiplies what attention multiplies.
  const bool shares = layer_.spec().residual == model::Residual::kParallelOneNorm;
  const double before = shares ? layer_.trained_readers(true) : 0.0;
  at(Saved::kFeedForwardInput) =
      shares && context_.sequence_parts == 1.0
          ? N * hidden_ * p *
                (kept_inputs(before + layer_.trained_readers(false)) - kept_inputs(before))
          : bytes_of_inputs(false);
  at(Saved::kFeedForwardInput) += adapted_bytes({Role::kGate, Role::kUp, Role::kGateUp});
  if (!shares || context_.casts() || context_.sequence_parts > 1.0) {
    at(Saved::kFeedForwardNormOutput) = hidden_bytes(context_, hidden_);
  }
  at(Saved::kGate) = N * w.gate * p;
  at(Saved::kUp) = N * w.up * p;
  if (layer_.spec().router.has_value()) measure_experts();
}

void LayerActivations::measure_experts() {
  const ExpertBytes experts = expert_bytes(context_, layer_, hidden_);
  at(Saved::kFeedForwardInput) =
      experts.input + adapted_bytes({Role::kSharedGate, Role::kSharedUp, Role::kSharedWeigher});
  at(Saved::kRouting) = experts.routing;
  share_of_sum_ = experts.share_of_sum;
  at(Saved::kRoutedTokens) = experts.routed;
  // The down projection of shared experts reads a value of its own beside an adapter, and its
  // output is weighed afterwards.
  if (layer_[Role::kSharedDown].rank == 0.0) return;
  const double weighed = layer_.has(Role::kSharedWeigher) ? hidden_ : 0.0;
  at(Saved::kUp) +=
      context_.tokens * (layer_[Role::kSharedDown].in + weighed) * context_.product_bytes +
      adapted_bytes({Role::kSharedDown});
}

void LayerActivations::measure_casts() {
  const double out = layer_.numel({Role::kAttentionOut});
  const double feed_forward =
      layer_.numel({Role::kGate, Role::kUp, Role::kGateUp, Role::kDown, Role::kExpertGate,
                    Role::kExpertUp, Role::kExpertGateUp, Role::kExpertDown, Role::kSharedGate,
                    Role::kSharedUp, Role::kSharedDown, Role::kSharedWeigher});
  // What is computed again beside an adapter is narrowed again (nn/decoder_layer.cpp).
  const double again = layer_[Role::kDown].rank > 0.0 ? layer_.numel({Role::kDown}) : 0.0;
  const double wide = layer_.numel({Role::kRouter});  // in float32 (nn/experts/router.h)
  at(Saved::kCastAttentionOut) = cast_weights_bytes(context_, out);
  at(Saved::kCastFeedForward) = cast_weights_bytes(context_, feed_forward - again);
  at(Saved::kCastOthers) = cast_weights_bytes(context_, layer_.numel() - out - feed_forward - wide);
}

// What adapters keep of their input between A and B.
double LayerActivations::adapted_bytes(std::initializer_list<Role> roles) const {
  return context_.tokens * layer_.adapter_ranks(roles) * context_.product_bytes;
}

// Where nothing before the layer trains, what comes before its first gradient keeps nothing.
void LayerActivations::begin_gradients() {
  const auto nothing = [this](SavedSet saved) {
    for (size_t i = 0; i < kSavedKinds; ++i) {
      if (saved.has(static_cast<Saved>(i))) bytes_[i] = 0.0;
    }
  };
  if (!layer_[Role::kInputNorm].trains) nothing({Saved::kInputNorm});
  if (layer_.trains_in_attention()) return;
  nothing({Saved::kHeads, Saved::kHeadNorms, Saved::kHeadNormInputs, Saved::kAttentionStatistics,
           Saved::kCastOthers});
  // The first segment of a layer that is several.
  if (mode_ != ActivationCheckpointing::kFull && !layer_.spec().parallel()) {
    nothing({Saved::kLayerInput});
  }
  if (layer_[Role::kAttentionOut].reads_input() || layer_[Role::kPostAttentionNorm].trains) return;
  nothing({Saved::kAttentionOutput, Saved::kCastAttentionOut});
  if (!layer_[Role::kPreFeedForwardNorm].trains) {
    const double after =
        layer_.has(Role::kPostFeedForwardNorm)
            ? bytes_of_norm(Role::kPostFeedForwardNorm, context_.tokens / context_.sequence_parts,
                            hidden_, context_.product_bytes)
            : 0.0;
    at(Saved::kOtherNorms) = std::min(at(Saved::kOtherNorms), after);
  }
}

double LayerActivations::bytes_of_norm(Role role, double rows, double width,
                                       double input_bytes) const {
  return norm_bytes(rows, width, input_bytes, layer_.spec().find(role)->norm,
                    context_.compute_bytes);
}

// What attention's or the feed-forward's first products keep of the hidden state: gathered where
// they are cut, as it is between modules where they are whole.
double LayerActivations::bytes_of_inputs(bool attention) const {
  const double whole = context_.tokens * hidden_ * context_.product_bytes;
  const double gathering = layer_.trained_readers(attention, true);
  const double others = layer_.trained_readers(attention, false);
  if (context_.sequence_parts == 1.0) return whole * kept_inputs(gathering + others);
  return whole * kept_inputs(gathering) + whole / context_.sequence_parts * kept_inputs(others);
}

// Of the products that read one input how many keep it, which the matrix's gradient reads: it is
// one tensor, unless autocast narrows it for each.
double LayerActivations::kept_inputs(double trained) const {
  return context_.casts() ? trained : std::min(trained, 1.0);
}

double LayerActivations::sum(SavedSet saved) const {
  double total = 0.0;
  for (size_t i = 0; i < kSavedKinds; ++i) {
    if (saved.has(static_cast<Saved>(i))) total += bytes_[i];
  }
  return total;
}

// What a feed-forward that is a segment of its own computes again: under "selective" from the sum
// before its norm, and of the gate's product; under "mlp" from the norm's output. The projections,
// another segment under "selective", compute less.
double LayerActivations::recomputed_feed_forward() const {
  const bool selective = mode_ == ActivationCheckpointing::kSelective;
  const double again = sum({Saved::kCastFeedForward, Saved::kFeedForwardInput, Saved::kRoutedTokens,
                            Saved::kUp, selective ? Saved::kOtherNorms : Saved::kGate});
  if (layer_.spec().residual == model::Residual::kParallelOneNorm) return again;
  // Gathering over the sequence, or narrowing, makes another tensor of the norm's output.
  const bool other_input = context_.sequence_parts > 1.0 || context_.casts();
  if (!selective && other_input) return again;
  return std::max(0.0, again - hidden_bytes(context_, hidden_));
}

double LayerActivations::recomputed() const {
  if (mode_ == ActivationCheckpointing::kOff) return 0.0;
  if (mode_ != ActivationCheckpointing::kFull) return recomputed_feed_forward();
  return std::max(0.0, sum(kept_under(ActivationCheckpointing::kOff, layer_.spec().residual)) +
                           share_of_sum_ - kept());
}

// In the feed-forward's backward: the gradient of the layer's output, which also goes past it, and
// the gradients of the activation and of both its factors. Then those of the factors take the place
// of what was saved of them, beside the gradient of their input. A checkpointed layer runs the down
// projection's backward on its own, so that its weight's gradient is packed by then. Under sequence
// parallelism that projection reads its output's gradient gathered.
BackwardBytes LayerActivations::backward() const {
  BackwardBytes bytes =
      layer_.spec().router.has_value()
          ? expert_backward(context_, layer_, hidden_, mode_ == ActivationCheckpointing::kSelective)
          : feed_forward_backward();
  bytes.attention = attention_backward();
  return bytes;
}

BackwardBytes LayerActivations::feed_forward_backward() const {
  const WideWidths w = wide_widths(context_, layer_);
  const double hidden = hidden_bytes(context_, hidden_);
  const double gathered = context_.sequence_parts > 1.0 ? hidden * context_.sequence_parts : 0.0;
  const double wide = context_.tokens * (w.gate + w.up + w.down_in) * context_.product_bytes;
  const double copy = layer_[Role::kDown].trains ? transposed_copy(context_, w.down_in) : 0.0;
  return {hidden + gathered + wide, 2.0 * hidden + copy, mode_ != ActivationCheckpointing::kOff};
}

LayerActivations::Owed LayerActivations::owed() const {
  using enum model::Space;
  Owed owed;
  owed.all = bytes_of_inputs(true) + bytes_of_inputs(false);
  const double taken = rows_of_token(context_, layer_);
  bool reads_rows = false;  // experts' gate and up multiply the same
  for (const LocalModule& module : layer_.modules()) {
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

double layer_activations(const ActivationContext& context, const Layout& layout, int64_t rank,
                         const model::Unit& layer) {
  return LayerActivations(context, layout, rank, layer).kept();
}

}  // namespace am::planner
