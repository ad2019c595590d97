// What commands over files share.
#pragma once

#include <string_view>

#include "am/inspect/session.h"

namespace am::inspect {

// The files that are open. Throws Error(kUsage) for a plan's model, which lives in ranks; `command`
// is named.
const stored::TensorSource& require_files(const Session& session, std::string_view command);

}  // namespace am::inspect
