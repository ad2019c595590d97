#include "am/layout/saved_activations.h"

namespace am::layout {

SavedSet kept_under(config::ActivationCheckpointing mode, model::Residual residual) {
  using config::ActivationCheckpointing;
  using enum Saved;
  static constexpr SavedSet kAll = {kInputNorm,
                                    kAttentionInput,
                                    kOtherNorms,
                                    kHeads,
                                    kHeadNorms,
                                    kAttentionOutput,
                                    kAttentionStatistics,
                                    kFeedForwardInput,
                                    kRouting,
                                    kRoutedTokens,
                                    kGate,
                                    kUp,
                                    kCastAttentionOut,
                                    kCastFeedForward,
                                    kCastOthers};
  static constexpr SavedSet kInsideMlp = {kFeedForwardInput, kRoutedTokens, kGate, kUp,
                                          kCastFeedForward};
  static constexpr SavedSet kSelective = {
      kHeads,   kHeadNormInputs, kAttentionOutput, kAttentionStatistics,
      kRouting, kGate,           kCastAttentionOut};
  switch (mode) {
    case ActivationCheckpointing::kFull:
      return {kLayerInput, kRouting};
    case ActivationCheckpointing::kSelective:
      return kSelective.with(
          residual == model::Residual::kParallelOneNorm
              ? SavedSet{kInputNorm, kAttentionInput, kFeedForwardNormOutput, kCastOthers}
              : SavedSet{kLayerInput, kSumAfterAttention});
    case ActivationCheckpointing::kMlp:
      return kAll.without(kInsideMlp).with({kFeedForwardNormOutput});
    case ActivationCheckpointing::kOff:
      break;
  }
  return kAll;
}

}  // namespace am::layout
