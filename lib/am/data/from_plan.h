// The plan's [data] and [train] sections as this folder's own structs.
#pragma once

#include "am/config/plan.h"
#include "am/data/sampler.h"
#include "am/data/token_source.h"

namespace am::data {

// Paths and a tokenizer's path are resolved against the plan's folder; `vocab_size` is the model's.
DataSpec data_spec(const config::Plan& plan, int64_t vocab_size);
SamplerOptions sampler_options(const config::Plan& plan);

}  // namespace am::data
