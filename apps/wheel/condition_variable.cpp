// Defines std::condition_variable::wait() for the libraries that scripts/wheel links against
// libtorch. In GCC 12's libstdc++, this function has the symbol version GLIBCXX_3.4.30, which older
// versions of libstdc++ lack. The symbol is hidden: a library that links this definition does not
// export it.
#include <pthread.h>

#include <condition_variable>
#include <mutex>

void std::condition_variable::wait(std::unique_lock<std::mutex>& lock) noexcept {
  ::pthread_cond_wait(native_handle(), lock.mutex()->native_handle());
}
asm(".hidden _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
