// Process of one rank that am-repl started. It holds this rank's shards of a plan's model, and
// executes the commands that arrive on a socket.
#pragma once

namespace am::values {

// Connects to the other ranks by means of the environment variables of torchrun, and executes
// commands until the socket closes. SIGINT interrupts the running command. Returns the exit status
// of the process. Errors are sent over the socket, not thrown.
int run_rank_worker(int socket);

}  // namespace am::values
