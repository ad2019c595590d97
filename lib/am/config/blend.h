// Reads Megatron's blends, lists of weights and datasets in turn: ["0.7", "a", "0.3", "b"].
#pragma once

#include "am/base/diagnostic.h"
#include "am/config/plan.h"

namespace am::config {

// Replaces a blend in data.path, for data.kind = "megatron", by data.source. The blend is the list
// itself, or a .json file that contains the list, or an object with the list under "train". Adds an
// error "plan.value" for a file or list of another form.
void settle_blend(Plan& plan, Diagnostics& found);

}  // namespace am::config
