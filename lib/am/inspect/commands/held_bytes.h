// JSON of the numbers that `memory`, `unshard` and `reshard` report.
#pragma once

#include <vector>

#include "am/base/json.h"
#include "am/inspect/tensor_catalog.h"

namespace am::inspect {

// [{"rank", "sharded_bytes", "unsharded_bytes", "gradient_bytes", "optimizer_bytes",
// "model_bytes"}]
Json to_json(const std::vector<HeldBytes>& ranks);

}  // namespace am::inspect
