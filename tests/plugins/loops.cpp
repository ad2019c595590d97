// Preloaded into a job: a process that gets SIGSYS, which no thread of ours blocks, computes
// without an end in its main thread, while the file that AM_TEST_LOOP names is there.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

extern "C" void loop_without_an_end(int) {
  const char* file = std::getenv("AM_TEST_LOOP");
  volatile unsigned turns = 0;
  while (file != nullptr && ::access(file, F_OK) == 0) turns = turns + 1;
}

namespace {

[[maybe_unused]] const bool kInstalled = [] {
  ::signal(SIGSYS, loop_without_an_end);
  return true;
}();

}  // namespace
