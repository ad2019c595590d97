#include <algorithm>
#include <array>

#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr std::array<const Family*, 108> kFamilies = {&kLlama,
                                                      &kMistral,
                                                      &kMixtral,
                                                      &kQwen2,
                                                      &kQwen2Moe,
                                                      &kQwen3,
                                                      &kQwen3Moe,
                                                      &kGemma,
                                                      &kGemma2,
                                                      &kGemma3Text,
                                                      &kPhi,
                                                      &kPhi3,
                                                      &kOlmo2,
                                                      &kDeepseekV2,
                                                      &kDeepseekV3,
                                                      &kGptOss,
                                                      &kGpt2,
                                                      &kFalcon,
                                                      &kSmollm3,
                                                      &kOlmo3,
                                                      &kOlmoe,
                                                      &kSeedOss,
                                                      &kExaone4,
                                                      &kGlm4Moe,
                                                      &kDots1,
                                                      &kMinimaxM2,
                                                      &kStarcoder2,
                                                      &kStablelm,
                                                      &kGptNeox,
                                                      &kHelium,
                                                      &kErnie45,
                                                      &kGlm,
                                                      &kGlm4,
                                                      &kCohere,
                                                      &kCohere2,
                                                      &kArcee,
                                                      &kNemotron,
                                                      &kGranite,
                                                      &kHunyuanV1Dense,
                                                      &kBloom,
                                                      &kMpt,
                                                      &kOpt,
                                                      &kGraniteMoe,
                                                      &kErnie45Moe,
                                                      &kHunyuanV1Moe,
                                                      &kAfmoe,
                                                      &kApertus,
                                                      &kApertus15Text,
                                                      &kAriaText,
                                                      &kAxk1,
                                                      &kBamba,
                                                      &kFalconH1,
                                                      &kBiogpt,
                                                      &kXglm,
                                                      &kBitnet,
                                                      &kCohere2Moe,
                                                      &kDbrx,
                                                      &kDeepseekV32,
                                                      &kDiffllama,
                                                      &kExaoneMoe,
                                                      &kFlexOlmo,
                                                      &kFlint,
                                                      &kGlm4MoeLite,
                                                      &kGlmMoeDsa,
                                                      &kGptBigcode,
                                                      &kGptNeo,
                                                      &kGptNeoxJapanese,
                                                      &kGptj,
                                                      &kCodegen,
                                                      &kGraniteSwa,
                                                      &kGraniteMoeSwa,
                                                      &kGraniteMoeShared,
                                                      &kGraniteMoeHybrid,
                                                      &kHyV3,
                                                      &kHyperclovax,
                                                      &kJais2,
                                                      &kJamba,
                                                      &kJetmoe,
                                                      &kKimiLinear,
                                                      &kLaguna,
                                                      &kLfm2,
                                                      &kLfm2Moe,
                                                      &kLfm3,
                                                      &kLlama4Text,
                                                      &kMamba,
                                                      &kFalconMamba,
                                                      &kMamba2,
                                                      &kMellum,
                                                      &kMimoV2Flash,
                                                      &kMinicpm3,
                                                      &kMinimax,
                                                      &kMinistral,
                                                      &kNanochat,
                                                      &kNemotronH,
                                                      &kOlmo,
                                                      &kOlmoHybrid,
                                                      &kOpenaiGpt,
                                                      &kPersimmon,
                                                      &kPhimoe,
                                                      &kQwen3Next,
                                                      &kQwen35Text,
                                                      &kQwen35MoeText,
                                                      &kRecurrentGemma,
                                                      &kSarvamMla,
                                                      &kSarvamMoe,
                                                      &kSolarOpen,
                                                      &kVaultgemma,
                                                      &kYoutu};

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family* family) {
    return family->model_type == model_type;
  });
  return found == kFamilies.end() ? nullptr : *found;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family* family : kFamilies) names.emplace_back(family->model_type);
  return names;
}

const Family& family_of(const ModelConfig& config) {
  const Family* family = find_family(config.model_type);
  return family != nullptr ? *family : kLlama;
}

}  // namespace am::model
