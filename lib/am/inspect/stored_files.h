// Shared by commands that read files.
#pragma once

#include <string_view>

#include "am/inspect/session.h"

namespace am::inspect {

// Returns the open files. Throws Error(kUsage) naming `command` if the session's model is in the
// memory of ranks.
const stored::TensorSource& require_files(const Session& session, std::string_view command);

}  // namespace am::inspect
