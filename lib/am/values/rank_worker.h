// A rank that am-repl started: holds its part of a plan's model and runs the commands that arrive
// on a socket.
#pragma once

namespace am::values {

// Joins the ranks that the environment's variables name, answers commands until the socket closes.
// SIGINT interrupts the command that runs. The process's exit status; errors have been sent,
// nothing is thrown.
int run_rank_worker(int socket);

}  // namespace am::values
