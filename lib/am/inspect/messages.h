// JSON messages over a socket between am-repl and the ranks it started: eight bytes of length, then
// the text.
#pragma once

#include <optional>

#include "am/base/json.h"
#include "am/inspect/command.h"

namespace am::inspect {

// False when the peer has gone. Throws Error(kRuntime) for anything else that goes wrong.
bool send_message(int socket, const Json& message);
// Blocks. Nothing when the peer has closed its end. Throws Error(kRuntime) for what is no message.
std::optional<Json> receive_message(int socket);

// An outcome as a message and back. unpack throws JsonError for a message of other types.
Json pack(const Outcome& outcome);
Outcome unpack(const Json& message);

}  // namespace am::inspect
