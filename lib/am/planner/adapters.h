// What [lora] makes of a model's description.
#pragma once

#include <string>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/model/inventory.h"
#include "am/model/lora.h"

namespace am::planner {

model::LoraConfig lora_config(const config::LoraSection& section);

// The description of the model that the plan trains: with its adapters, where it has any. Adds
// "lora.target_modules".
model::DecoderSpec planned_spec(const config::Plan& plan, const model::ModelConfig& config,
                                Diagnostics& found);

// "rank 16 beside 64 modules: 6.82 M of 8.04 B parameters are trained"; empty without adapters.
std::string adapters_text(const model::Inventory& inventory);

}  // namespace am::planner
