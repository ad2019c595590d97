// The process of one rank that am-repl started. It has the rank's shards of a plan's model and
// executes the commands that arrive on a socket.
#pragma once

namespace am::values {

// Connects to the other ranks, which the environment variables describe, and executes commands
// until the socket closes. SIGINT interrupts the running command. Returns the process's exit
// status. Errors are sent over the socket, not thrown.
int run_rank_worker(int socket);

}  // namespace am::values
