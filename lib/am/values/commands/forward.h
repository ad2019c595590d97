// Runs forward passes for commands that observe intermediate values.
//
//   const auto tokens = prepare_forward(session, arguments);
//   const std::string of = run_forward_of(session, tokens);   // "of the text"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/inspect/command.h"
#include "am/parallel/parallel_model.h"

namespace am::values {

// Prepares the model with prepare_model(). Returns the token ids of the text in the option --of
// TEXT, or nullopt without this option. Throws the errors of text_or_file(), prepare_model() and
// encode(). Collective.
std::optional<std::vector<int64_t>> prepare_forward(inspect::Session& session,
                                                    const inspect::Arguments& arguments);

// Runs a forward pass of `tokens`, or of the next batch of the plan's data if `tokens` is nullopt.
// Returns a description of the data, for example "of the text". Throws Error(kUsage) if there are
// no data, or if `tokens` is an empty list or has more than window_length() ids. Collective.
std::string run_forward_of(inspect::Session& session,
                           const std::optional<std::vector<int64_t>>& tokens);

// Returns whether a sum over all ranks must include the values of this rank. If several ranks
// compute the same values, returns true on only one of these ranks. `is_text`: whether all dp ranks
// have the same input. `is_sharded_over_tp`: whether the tp ranks compute different values.
bool counts_here(const parallel::ParallelModel& model, bool is_text, bool is_sharded_over_tp);

}  // namespace am::values
