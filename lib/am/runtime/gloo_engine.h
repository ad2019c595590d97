// Gloo over TCP: the engine of host tensors. A group whose ranks are all on one host and can share
// memory runs most collectives, and its messages, through that memory instead (shared_memory/
// shared_memory_group.h, mailbox.h), unless a rank has AM_SHARED_MEMORY=0 in its environment.
//
// The network interfaces are the first of these that apply: the interfaces of GLOO_SOCKET_IFNAME;
// loopback if MASTER_ADDR is a loopback address; the interface that reaches MASTER_ADDR; c10d's
// default, if MASTER_ADDR cannot be resolved. (c10d's default resolves the machine's host name. On
// Debian that gives 127.0.1.1, and peers on different machines then wait for each other until the
// timeout.)
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

// Returns the engine. Throws Error(kRuntime), which names the interface, if Gloo cannot use an
// interface of GLOO_SOCKET_IFNAME.
std::shared_ptr<Engine> make_gloo_engine(const launch::RankEnvironment& here);

}  // namespace am::runtime
