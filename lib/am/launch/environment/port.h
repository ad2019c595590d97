// TCP ports and addresses, before anybody uses them.
#pragma once

#include <string>

namespace am::launch {

// A TCP port that nobody listens on. Asked from the kernel, on 127.0.0.1. Another process may take
// it before it is used: bind soon. Throws Error(kRuntime) when there is none.
int free_port();

// Why a server cannot listen on this port of all addresses of this machine: "Address already in
// use"; empty when it can.
std::string port_problem(int port);

// Why a host name or address has no address: "Name or service not known"; empty when it has.
std::string address_problem(const std::string& host);

}  // namespace am::launch
