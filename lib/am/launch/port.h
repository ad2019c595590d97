// A TCP port that nobody listens on.
#pragma once

namespace am::launch {

// Asked from the kernel, on 127.0.0.1. Another process may take it before it is used: bind soon.
// Throws Error(kRuntime) when there is none.
int free_port();

}  // namespace am::launch
