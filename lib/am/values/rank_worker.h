// A rank that am-repl started: holds its shards of a plan's model and executes the commands that
// arrive on a socket.
#pragma once

namespace am::values {

// Joins the ranks given by the environment variables, and executes commands until the socket
// closes. SIGINT interrupts the running command. Returns the process's exit status; errors are sent
// over the socket, not thrown.
int run_rank_worker(int socket);

}  // namespace am::values
