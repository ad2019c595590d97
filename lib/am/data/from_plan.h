// Converts a plan's [data] and [train] sections to DataSpec and SamplerOptions.
#pragma once

#include <cstdint>
#include <optional>

#include "am/config/plan.h"
#include "am/data/sampler.h"
#include "am/data/token_source.h"

namespace am::data {

// Returns the id of the plan's eod_token, which data.tokenizer knows if it is a name. Throws
// Error(kPlan) with similar names if the tokenizer has no such token, and the errors of
// make_tokenizer().
std::optional<int64_t> eod_token_id(const config::Plan& plan);

// Return a plan's options for the data and for the sampler. The data paths and the tokenizer's path
// are resolved against the plan's folder; `vocab_size`: vocabulary size of the model. data_spec()
// throws the errors of eod_token_id().
DataSpec data_spec(const config::Plan& plan, int64_t vocab_size);
SamplerOptions sampler_options(const config::Plan& plan);

}  // namespace am::data
