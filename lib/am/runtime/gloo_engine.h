// Gloo over TCP: the engine of host tensors. A group whose ranks are all on one host has its
// collectives and its messages through shared memory instead (shared_memory/shared_memory_group.h,
// message_group.h), unless the environment of one of them says AM_SHARED_MEMORY=0.
//
// The network device is, in this order: the interfaces of GLOO_SOCKET_IFNAME; loopback when the
// ranks meet on a loopback address; the interface that reaches MASTER_ADDR. (c10d's own default
// asks what the machine's host name resolves to. On Debian that is 127.0.1.1, and peers on other
// machines then wait for each other in vain.)
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

// Throws Error(kRuntime) that names the interface or address when there is no such device.
std::shared_ptr<Engine> make_gloo_engine(const launch::RankEnvironment& here);

}  // namespace am::runtime
