// Sends JSON messages over a socket between am-repl and the ranks that it has started. A message
// consists of the length of its JSON text (eight bytes in the host's byte order) and the text.
#pragma once

#include <optional>

#include "am/base/json.h"
#include "am/inspect/command.h"

namespace am::inspect {

// Sends a message. Returns false if the peer has closed its end. Throws Error(kRuntime) for other
// failures.
bool send_message(int socket, const Json& message);
// Waits for the next message and returns it. Returns nullopt if the peer has closed its end. Throws
// Error(kRuntime) for a malformed message and for other failures.
std::optional<Json> receive_message(int socket);

// pack() converts an outcome to a message, and unpack() converts it back. unpack() throws JsonError
// if a value in the message has a wrong type.
Json pack(const Outcome& outcome);
Outcome unpack(const Json& message);

}  // namespace am::inspect
