// The set of tensors that a decoder layer saves for its backward under each mode of activation
// checkpointing.
//
// nn/decoder_layer.cpp recomputes the tensors outside the set, and
// predict/memory/layer_activations.h counts the bytes of the tensors in the set.
//
//   const auto mode = config::ActivationCheckpointing::kSelective;
//   kept_under(mode, layer.residual).has(Saved::kGate);   // true
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "am/config/strategy_config.h"
#include "am/model/spec.h"

namespace am::layout {

enum class Saved : uint8_t {
  kLayerInput,
  kInputNorm,
  kAttentionInput,  // input of attention's first projections
  kOtherNorms,
  kHeads,  // queries, keys, values
  kHeadNormInputs,
  kHeadNorms,
  kAttentionOutput,
  kAttentionStatistics,  // log-sum-exp of each token and head
  kSumAfterAttention,
  kFeedForwardNormOutput,
  kFeedForwardInput,  // input of gate and up
  kRouting,       // experts of each token; every mode keeps kRouting, so routing is not repeated
  kRoutedTokens,  // inputs of the experts' matmuls (a row per token and expert), routing weights
  kGate,
  kUp,
  // Copies of weights in autocast's dtype: for o_proj, for the feed-forward, for all other modules.
  kCastAttentionOut,
  kCastFeedForward,
  kCastOthers,
};
inline constexpr size_t kSavedKinds = static_cast<size_t>(Saved::kCastOthers) + 1;

class SavedSet {
 public:
  constexpr SavedSet(std::initializer_list<Saved> saved) {
    for (const Saved each : saved) bits_ |= bit(each);
  }
  constexpr bool has(Saved saved) const { return (bits_ & bit(saved)) != 0; }
  constexpr SavedSet with(SavedSet more) const { return SavedSet(bits_ | more.bits_); }
  constexpr SavedSet without(SavedSet less) const { return SavedSet(bits_ & ~less.bits_); }

 private:
  constexpr explicit SavedSet(uint32_t bits) : bits_(bits) {}
  static constexpr uint32_t bit(Saved saved) { return uint32_t{1} << static_cast<unsigned>(saved); }

  uint32_t bits_ = 0;
};
static_assert(kSavedKinds <= 32);

// Returns the tensors of a layer that a mode keeps for backward. Every mode keeps the routing of
// experts.
//
// kOff keeps everything that autograd saves.
//
// kFull keeps the layer's input. Backward recomputes everything except the down projection, whose
// output backward does not need. In Gemma 2 and 3 and OLMo 2, a norm reads this output, so backward
// recomputes the down projection too.
//
// kSelective keeps the layer's input; queries, keys and values as attention reads them (and before
// their norms, in families with such norms); attention's output and statistics; the residual stream
// after attention; and the gate projection. Backward recomputes the norms, the rotation if it
// follows a norm, the up projection and the activation, but not attention. Backward thus recomputes
// one of a layer's seven matmuls, or three if norms read the outputs of o_proj and down_proj.
// PyTorch's per-operator policies keep every second matmul instead, with about equal bytes. In a
// layer whose attention and feed-forward share one input norm (Falcon, Phi), backward does not
// recompute the norm: the norm's output is kept instead of the layer's input and the residual
// stream after attention.
//
// kMlp keeps the feed-forward's input (as kFeedForwardNormOutput) and everything that autograd
// saves outside the feed-forward. Backward recomputes the feed-forward, the module that NeMo
// AutoModel's first releases wrapped.
SavedSet kept_under(config::ActivationCheckpointing mode, model::Residual residual);

}  // namespace am::layout
