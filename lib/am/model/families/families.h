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

}  // namespace am::model
