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

// Returns the name of the plan's tokenizer for make_tokenizer(): "bytes", or a path. If the plan's
// value is "auto", returns the tokenizer file in the model's folder, or "bytes" if that folder
// contains no tokenizer.
std::string tokenizer_name(const config::Plan& plan);

// Returns the id of the plan's eod_token; nullopt if the plan has none. An eod_token that is a name
// is looked up in the plan's tokenizer. Throws Error(kPlan) with similar names if the tokenizer has
// no such token, and the errors of make_tokenizer().
std::optional<int64_t> eod_token_id(const config::Plan& plan);

// Returns one DataSpec per source of the plan's mixture, or a single DataSpec if the plan has no
// mixture. The data paths are resolved against the plan's folder. `vocab_size`: vocabulary size of
// the model. Throws the errors of eod_token_id().
std::vector<DataSpec> data_specs(const config::Plan& plan, int64_t vocab_size);
// Returns a copy of the plan whose training data are replaced by the files of validation.path,
// unshuffled and for one epoch. The seed is changed, so synthetic validation tokens differ from
// synthetic training tokens.
config::Plan with_validation_data(config::Plan plan);
// Returns pairs of a name and a plan as from with_validation_data(): one with an empty name for
// validation.path, and one per validation set, with the set's name. If the plan has neither
// validation.path nor validation sets, returns one plan with an empty name.
std::vector<std::pair<std::string, config::Plan>> validation_plans(const config::Plan& plan);

// Opens a plan's training data for reading in the data order (sampler.h). `log` receives progress
// lines while files are tokenised. Throws the errors of data_specs() and open_samples().
BatchReader open_batches(const config::Plan& plan, int64_t vocab_size,
                         const std::function<void(const std::string&)>& log = {});

}  // namespace am::data
