// Converts a plan's [data] and [train] sections to DataSpec and SamplerOptions.
#pragma once

#include <cstdint>
#include <optional>

#include "am/config/plan.h"
#include "am/data/batch.h"
#include "am/data/token_source.h"

namespace am::data {

// Returns the id of the plan's eod_token; nothing if the plan has none. Looks a name up in the
// tokenizer data.tokenizer. Throws Error(kPlan) with similar names if the tokenizer has no such
// token, and the errors of make_tokenizer().
std::optional<int64_t> eod_token_id(const config::Plan& plan);

// Returns the description of a plan's data. The data paths and the tokenizer's path are resolved
// against the plan's folder; `vocab_size`: vocabulary size of the model. Throws the errors of
// eod_token_id().
DataSpec data_spec(const config::Plan& plan, int64_t vocab_size);
// Opens a plan's data, as open_samples() does, for reading in the plan's order.
BatchReader open_batches(const config::Plan& plan, int64_t vocab_size);

}  // namespace am::data
