// Opens the data that a plan's sections [data] and [train] describe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/config/plan.h"
#include "am/data/batch.h"
#include "am/data/token_source.h"

namespace am::data {

// Returns the name of the plan's tokenizer for make_tokenizer(): "bytes", or a path. For the value
// "auto", this is the tokenizer in the model's folder; "bytes" if the folder has none.
std::string tokenizer_name(const config::Plan& plan);

// Returns the id of the plan's eod_token; nullopt if the plan has none. An eod_token that is a name
// is looked up in the plan's tokenizer. Throws Error(kPlan) with similar names if the tokenizer has
// no such token, and the errors of make_tokenizer().
std::optional<int64_t> eod_token_id(const config::Plan& plan);

// Returns the descriptions of a plan's data: one per source of a mixture, otherwise one. The data
// paths are resolved against the plan's folder; `vocab_size`: vocabulary size of the model. Throws
// the errors of eod_token_id().
std::vector<DataSpec> data_specs(const config::Plan& plan, int64_t vocab_size);
// Returns the plan with its validation data, unshuffled and for one epoch, in place of its training
// data. The seed is changed, so that synthetic validation tokens differ from those of training.
config::Plan with_validation_data(config::Plan plan);
// Returns with_validation_data() for each validation set, with the set's name. The name is empty
// for validation.path. If the plan has neither a path nor sets, returns one plan with an empty
// name.
std::vector<std::pair<std::string, config::Plan>> validation_plans(const config::Plan& plan);

// Opens a plan's data, as open_samples() does, for reading in the plan's order. `log` receives
// progress lines while files are tokenised.
BatchReader open_batches(const config::Plan& plan, int64_t vocab_size,
                         const std::function<void(const std::string&)>& log = {});

}  // namespace am::data
