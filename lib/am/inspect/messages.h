// JSON messages over a socket between am-repl and the ranks it started: eight bytes of length, then
// the text.
#pragma once

#include <optional>

#include "am/base/json.h"
#include "am/inspect/command.h"

namespace am::inspect {

// Returns false if the peer has closed its end. Throws Error(kRuntime) for other failures.
bool send_message(int socket, const Json& message);
// Blocks. Returns nothing if the peer has closed its end. Throws Error(kRuntime) for malformed
// messages.
std::optional<Json> receive_message(int socket);

// Converts an outcome to a message and back. unpack throws JsonError for a message with wrong
// types.
Json pack(const Outcome& outcome);
Outcome unpack(const Json& message);

}  // namespace am::inspect
