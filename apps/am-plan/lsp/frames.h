// The frames of the Language Server Protocol: a header with Content-Length, and JSON text.
#pragma once

#include <istream>
#include <optional>
#include <string>

#include "am/base/json.h"

namespace am_plan::lsp {

// Reads one frame and returns its JSON text; nothing at the end of the input. Throws Error(kFormat)
// if the header is longer than 4 KiB, if it states no length or a length above 64 MiB, or if the
// input ends inside the frame. No further frame can be read after an error.
std::optional<std::string> read_frame(std::istream& in);

// Returns a message as a frame.
std::string frame_of(const am::Json& message);

}  // namespace am_plan::lsp
