// Gives commands that read files, and not only tensors, access to the opened files.
#pragma once

#include <string_view>

#include "am/inspect/session.h"

namespace am::inspect {

// Returns the opened checkpoint or weights. Throws Error(kUsage), which names `command`, if the
// model of the session is in the memory of ranks instead.
const stored::TensorSource& require_files(const Session& session, std::string_view command);

}  // namespace am::inspect
