// Converts a plan's [data] and [train] sections to the structs of this folder.
#pragma once

#include "am/config/plan.h"
#include "am/data/sampler.h"
#include "am/data/token_source.h"

namespace am::data {

// Return the data's and the sampler's options of a plan. The data paths and the tokenizer's path
// are resolved against the plan's folder; `vocab_size` is the model's.
DataSpec data_spec(const config::Plan& plan, int64_t vocab_size);
SamplerOptions sampler_options(const config::Plan& plan);

}  // namespace am::data
