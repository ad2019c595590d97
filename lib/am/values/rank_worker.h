// Runs a process that am-repl started for one rank of a plan. The process holds this rank's shards
// of the model, and executes the commands that arrive on a socket.
#pragma once

namespace am::values {

// Connects to the other ranks by means of torchrun's environment variables, and executes commands
// until the socket closes. `socket` is the descriptor number of the socket. SIGINT interrupts the
// running command. Sends errors over the socket instead of throwing them. Returns the exit status
// of the process.
int run_rank_worker(int socket);

}  // namespace am::values
