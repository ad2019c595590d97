// SignalsBlocked blocks all signals of the calling thread while the object exists. Threads and
// child processes that the thread starts meanwhile inherit the blocked signals, so that no signal
// handler runs in them.
//
//   const SignalsBlocked blocked;
//   const pid_t child = ::fork();
#pragma once

#include <csignal>

namespace am {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_ = {};
};

}  // namespace am
