// Converts a plan's [data] and [train] sections to DataSpec and SamplerOptions.
#pragma once

#include "am/config/plan.h"
#include "am/data/sampler.h"
#include "am/data/token_source.h"

namespace am::data {

// Return a plan's options for the data and for the sampler. The data paths and the tokenizer's path
// are resolved against the plan's folder; `vocab_size`: vocabulary size of the model.
DataSpec data_spec(const config::Plan& plan, int64_t vocab_size);
SamplerOptions sampler_options(const config::Plan& plan);

}  // namespace am::data
