// Checks of TCP ports and addresses before use.
#pragma once

#include <string>

namespace am::launch {

// Returns a TCP port on 127.0.0.1 on which nothing listens, chosen by the kernel. Another process
// may take it before it is used, so bind soon. Throws Error(kRuntime) if there is none.
int free_port();

// Returns why a server cannot listen on this port on all addresses of this machine, such as
// "Address already in use"; empty if it can.
std::string port_problem(int port);

// Returns why a host name or address cannot be resolved, such as "Name or service not known"; empty
// if it can.
std::string address_problem(const std::string& host);

}  // namespace am::launch
