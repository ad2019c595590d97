// Applies a plan's [lora] section to the model description.
#pragma once

#include <string>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/model/inventory.h"
#include "am/model/lora.h"

namespace am::layout {

struct Layout;

// Returns the section's LoRA options. LoraConfig::scale is alpha / rank, or with use_rslora
// alpha / sqrt(rank).
model::LoraConfig lora_config(const config::LoraSection& section);

// Returns the description of the model that the plan trains, with LoRA adapters if the plan has
// them. Adds "lora.target_modules" and "lora.modules_to_save" errors.
model::DecoderSpec planned_spec(const config::Plan& plan, const model::ModelConfig& config,
                                Diagnostics& found);

// Returns a summary of the adapters, for example "rank 16 for 64 modules: 8.39 M of 8.04 B
// parameters are trained", or an empty string without adapters. The trained parameters include
// those of lora.modules_to_save.
std::string adapters_text(const Layout& layout);

}  // namespace am::layout
