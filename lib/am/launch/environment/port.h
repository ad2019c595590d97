// Finds free TCP ports, and checks ports and addresses before use.
#pragma once

#include <string>

namespace am::launch {

// Returns a free TCP port of 127.0.0.1, chosen by the kernel. The port is not reserved: another
// process may use it before the caller does. Throws Error(kRuntime) if no port is free.
int free_port();

// Returns why a server cannot listen on this port on all IPv4 addresses of this machine, for
// example "Address already in use"; empty if a server can listen.
std::string port_problem(int port);

// Returns why a host name or address cannot be resolved, for example "Name or service not known";
// empty if `host` can be resolved.
std::string address_problem(const std::string& host);

}  // namespace am::launch
