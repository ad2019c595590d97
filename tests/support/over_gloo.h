// While an OverGloo exists, new worlds connect ranks of one host through Gloo's TCP connections
// instead of shared memory.
//
//   const OverGloo over_gloo(GENERATE(false, true));       // runs a test with both transports
#pragma once

#include <cstdlib>

class OverGloo {
 public:
  explicit OverGloo(bool wanted = true) : wanted_(wanted) {
    if (wanted_) ::setenv("AM_SHARED_MEMORY", "0", 1);
  }
  ~OverGloo() {
    if (wanted_) ::unsetenv("AM_SHARED_MEMORY");
  }
  OverGloo(const OverGloo&) = delete;
  OverGloo& operator=(const OverGloo&) = delete;

 private:
  bool wanted_;
};
