// Converts the memory sizes that `memory`, `unshard` and `reshard` report to JSON.
#pragma once

#include <vector>

#include "am/base/json.h"
#include "am/inspect/tensor_catalog.h"

namespace am::inspect {

// Returns a list with one object for each rank: {"rank", "sharded_bytes", "unsharded_bytes",
// "gradient_bytes", "optimizer_bytes", "model_bytes"}.
Json to_json(const std::vector<HeldBytes>& ranks);

}  // namespace am::inspect
