// Gloo over TCP: the engine of host tensors. If the ranks of a group are all on one host and can
// share memory, most collectives of the group, and its messages, use shared memory instead of TCP
// (shared_memory/shared_memory_group.h, shared_memory/mailbox.h). AM_SHARED_MEMORY=0 in the
// environment of any of these ranks prevents this.
//
// Gloo uses the network interfaces of the first line that applies:
//
//   1. the interfaces that GLOO_SOCKET_IFNAME lists
//   2. loopback, if MASTER_ADDR is a loopback address
//   3. the interface that reaches MASTER_ADDR
//   4. c10d's default, if MASTER_ADDR cannot be resolved or reached
//
// c10d's default resolves the machine's host name. On Debian, the result is 127.0.1.1, and peers on
// different machines then wait for each other until the timeout.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

// Returns the engine. If Gloo cannot use an interface of GLOO_SOCKET_IFNAME, throws
// Error(kRuntime), which names the interface.
std::shared_ptr<Engine> make_gloo_engine(const launch::RankEnvironment& here);

}  // namespace am::runtime
