// Declarations of the families that registry.cpp lists.
#pragma once

#include "am/model/family.h"

namespace am::model {

extern const Family kLlama;
extern const Family kMistral;
extern const Family kMixtral;
extern const Family kQwen2;
extern const Family kQwen2Moe;
extern const Family kQwen3;
extern const Family kQwen3Moe;
extern const Family kGemma;
extern const Family kGemma2;
extern const Family kGemma3Text;
extern const Family kPhi;
extern const Family kPhi3;
extern const Family kOlmo2;
extern const Family kDeepseekV2;
extern const Family kDeepseekV3;
extern const Family kGptOss;
extern const Family kGpt2;
extern const Family kFalcon;
extern const Family kSmollm3;
extern const Family kOlmo3;
extern const Family kOlmoe;
extern const Family kSeedOss;
extern const Family kExaone4;
extern const Family kGlm4Moe;
extern const Family kDots1;
extern const Family kMinimaxM2;
extern const Family kStarcoder2;
extern const Family kStablelm;
extern const Family kGptNeox;
extern const Family kHelium;
extern const Family kErnie45;
extern const Family kGlm;
extern const Family kGlm4;
extern const Family kCohere;
extern const Family kCohere2;
extern const Family kArcee;
extern const Family kNemotron;
extern const Family kGranite;
extern const Family kHunyuanV1Dense;
extern const Family kOpt;
extern const Family kGraniteMoe;
extern const Family kErnie45Moe;
extern const Family kHunyuanV1Moe;

}  // namespace am::model
