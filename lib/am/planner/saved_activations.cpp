#include "am/planner/saved_activations.h"

namespace am::planner {

SavedSet kept_under(config::ActivationCheckpointing mode) {
  using config::ActivationCheckpointing;
  using enum Saved;
  static constexpr SavedSet kAll = {
      kInputNorm,           kAttentionInput,   kOtherNorms,   kHeads, kHeadNorms, kAttentionOutput,
      kAttentionStatistics, kFeedForwardInput, kRoutedTokens, kGate,  kUp,        kDownInput,
      kCastAttentionOut,    kCastFeedForward,  kCastOthers};
  static constexpr SavedSet kInsideMlp = {kFeedForwardInput, kGate, kUp, kDownInput,
                                          kCastFeedForward};
  switch (mode) {
    case ActivationCheckpointing::kFull:
      return {kLayerInput};
    case ActivationCheckpointing::kSelective:
      return {kLayerInput,        kHeads, kHeadNormInputs,  kAttentionOutput, kAttentionStatistics,
              kSumAfterAttention, kGate,  kCastAttentionOut};
    case ActivationCheckpointing::kMlp:
      return kAll.without(kInsideMlp).with({kFeedForwardNormOutput});
    case ActivationCheckpointing::kOff:
      break;
  }
  return kAll;
}

}  // namespace am::planner
