// Access to the opened checkpoint files, for commands that read more from them than tensors.
#pragma once

#include <string_view>

#include "am/inspect/session.h"

namespace am::inspect {

// Returns the source that reads the opened checkpoint or weights. Throws Error(kUsage), which names
// `command`, if the session has no files because its model is in the memory of ranks.
const stored::TensorSource& require_files(const Session& session, std::string_view command);

}  // namespace am::inspect
