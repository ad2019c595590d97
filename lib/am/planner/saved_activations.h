// What a decoder layer saves until its backward, as a set: what activation checkpointing changes.
//
// One table for both sides: nn/decoder_layer.cpp computes again what is not in a mode's set, and
// layer_activations.h counts the bytes of what is.
//
//   kept_under(config::ActivationCheckpointing::kSelective, layer.residual).has(Saved::kGate);   // true
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "am/config/strategy_config.h"
#include "am/model/spec.h"

namespace am::planner {

enum class Saved : uint8_t {
  kLayerInput,
  kInputNorm,
  kAttentionInput,  // what the first projections multiply
  kOtherNorms,
  kHeads,  // queries, keys, values
  kHeadNormInputs,
  kHeadNorms,
  kAttentionOutput,
  kAttentionStatistics,  // a logarithm for each token and head
  kSumAfterAttention,
  kFeedForwardNormOutput,
  kFeedForwardInput,  // what gate and up multiply
  kRouting,           // which experts tokens take: kept in every mode, not chosen again
  kRoutedTokens,      // as experts multiply them, with their weights
  kGate,
  kUp,
  // Weights as autocast narrowed them.
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

// What a mode keeps of a layer. Off: all that autograd would save.
//
// Full keeps the layer's input. Backward computes everything again but the down projection, whose
// output it does not need (it does where a norm reads that output: Gemma 2 and 3, OLMo 2).
//
// Selective keeps the layer's input; queries, keys and values as attention takes them (and before
// their norms, in families that have those); attention's output and statistics; the sum after
// attention; and the gate's product. Backward computes again the norms, the rotation where it
// follows a norm, the up projection and the activation. So each matrix product but one in seven is
// multiplied once, and no attention twice; where norms read what projections give, three in seven
// are multiplied again. PyTorch's per-operator policies keep every second product instead, about as
// many bytes.
//
// Mlp keeps all that autograd saves outside the feed-forward, and the feed-forward's input: what
// NeMo AutoModel's first releases wrapped.
SavedSet kept_under(config::ActivationCheckpointing mode, model::Residual residual);

}  // namespace am::planner
