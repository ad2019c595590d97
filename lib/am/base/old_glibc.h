// Replacements for functions that glibc provides only since version 2.32 (names of signals) or 2.34
// (closing of descriptors). The tools in the Python wheel need them, because they are linked for
// glibc 2.28.
#pragma once

#include <spawn.h>

namespace am {

// Closes all descriptors from `first` on. Makes only system calls, so it may be called after fork()
// in the child of a process with several threads.
void close_descriptors_from(int first);
// The part of close_descriptors_from() for Linux before 5.9, which has no system call for a range:
// closes the entries of /proc/self/fd one by one.
void close_listed_descriptors(int first);

// Makes a process that is started with `actions` close all descriptors from `first` on. Must be
// called after all actions that use these descriptors have been added.
void add_close_from(posix_spawn_file_actions_t& actions, int first);
// The part of add_close_from() for glibc before 2.34: adds an action for each descriptor of this
// process that the new program would inherit now. Descriptors that another thread opens before the
// process starts are inherited, unless they have FD_CLOEXEC.
void add_close_inherited(posix_spawn_file_actions_t& actions, int first);

// Returns the name of the signal without "SIG", for example "SEGV"; nullptr for real-time signals
// and numbers that are not signals.
const char* signal_name(int signal);
// Returns the description of the signal, for example "Segmentation fault"; nullptr for real-time
// signals and numbers that are not signals.
const char* signal_description(int signal);

}  // namespace am
