// What all ranks' answers say together: where each one is, and which the others wait for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/inspect/command.h"
#include "am/live/helpers.h"
#include "am/term/style.h"

namespace am::live {

// Results of `ranks`, `collectives` and `stack`. The last two throw Error(kRuntime) where the rank
// that they are about is silent.
inspect::Result describe_ranks(const Answers& answers, const term::Style& style);
inspect::Result describe_collectives(const Answers& answers, const term::Style& style);
inspect::Result describe_stack(int64_t rank, const Answers& answers);

}  // namespace am::live
