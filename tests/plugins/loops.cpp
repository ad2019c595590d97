// A library that is preloaded into a job, and lets a test make a process loop. On SIGSYS, which
// automesh does not block in the main thread, a signal handler loops in this thread while the file
// named by AM_TEST_LOOP exists. Kernels that libraries generate at run time have no unwind tables.
// If the signal interrupts one of these kernels, the handler returns, and runs again a millisecond
// later.
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

extern "C" void loop_without_an_end(int) {
  void* frames[16];
  constexpr int kFewest = 6;  // a shorter stack was cut off at generated code
  if (::backtrace(frames, 16) < kFewest) {
    ::ualarm(1000, 0);
    return;
  }
  const char* file = std::getenv("AM_TEST_LOOP");
  volatile unsigned turns = 0;
  while (file != nullptr && ::access(file, F_OK) == 0) turns = turns + 1;
}

namespace {

[[maybe_unused]] const bool kInstalled = [] {
  void* frames[1];
  ::backtrace(frames, 1);  // loads libgcc now, because a signal handler must not load it
  ::signal(SIGSYS, loop_without_an_end);
  ::signal(SIGALRM, loop_without_an_end);
  return true;
}();

}  // namespace
