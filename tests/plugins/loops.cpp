// A library that is preloaded into a job, and makes a process loop: after SIGSYS, which no automesh
// thread blocks, the process loops in a signal handler of its main thread while the file named by
// AM_TEST_LOOP exists. Kernels that libraries generate at run time have no unwind tables: a thread
// that is interrupted in one continues for a millisecond before it loops.
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

extern "C" void loop_without_an_end(int) {
  void* frames[16];
  constexpr int kFewest = 6;  // a shorter stack could not be unwound: generated code
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
  ::backtrace(frames, 1);  // loads libgcc now, because a handler must not
  ::signal(SIGSYS, loop_without_an_end);
  ::signal(SIGALRM, loop_without_an_end);
  return true;
}();

}  // namespace
