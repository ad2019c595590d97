// `--by layer`, which several commands take.
#pragma once

#include "am/inspect/command.h"

namespace am::inspect {

// Throws Error(kUsage) for --by's other values.
bool by_layer(const Arguments& arguments);

}  // namespace am::inspect
