#include "am/planner/saved_activations.h"

namespace am::planner {

SavedSet kept_under(config::ActivationCheckpointing mode) {
  using config::ActivationCheckpointing;
  using enum Saved;
  switch (mode) {
    case ActivationCheckpointing::kFull:
      return {kLayerInput};
    case ActivationCheckpointing::kSelective:
      return {kLayerInput,          kHeads,      kHeadNormInputs,    kAttentionOutput,
              kAttentionStatistics, kWindowMask, kSumAfterAttention, kGate,
              kCastAttentionOut};
    case ActivationCheckpointing::kMlp:
      return {kInputNorm,
              kAttentionInput,
              kOtherNorms,
              kHeads,
              kHeadNorms,
              kAttentionOutput,
              kAttentionStatistics,
              kWindowMask,
              kFeedForwardNormOutput,
              kRoutedTokens,
              kCastAttentionOut,
              kCastOthers};
    case ActivationCheckpointing::kOff:
      break;
  }
  return {kInputNorm,
          kAttentionInput,
          kOtherNorms,
          kHeads,
          kHeadNorms,
          kAttentionOutput,
          kAttentionStatistics,
          kWindowMask,
          kFeedForwardInput,
          kRoutedTokens,
          kGate,
          kUp,
          kDownInput,
          kCastAttentionOut,
          kCastFeedForward,
          kCastOthers};
}

}  // namespace am::planner
