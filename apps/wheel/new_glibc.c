/* Defines the symbols of glibc 2.30 and 2.32 that libstdc++ and its headers use, for programs that
 * scripts/wheel links against glibc 2.28. For automesh's own code, see lib/am/base/old_glibc.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

/* Whether the process is known to have only one thread; if so, libstdc++ counts references without
 * atomic instructions. Always 0, which is correct for any number of threads. */
char __libc_single_threaded = 0;

/* Waits on the condition until the time `until` of `clock`, which is CLOCK_MONOTONIC for
 * std::chrono::steady_clock. Before 2.30, glibc waits by the condition's own clock, which is
 * CLOCK_REALTIME here. If that clock is set during the wait, the wait ends early or late; after an
 * early end, libstdc++ compares the times again. */
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  typedef int Wait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  static _Atomic(Wait*) glibc;
  static _Atomic(int) looked_up;
  if (!looked_up) {
    glibc = (Wait*)dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    looked_up = 1;
  }
  Wait* const wait = glibc;
  if (wait != NULL) return wait(condition, mutex, clock, until);
  const long second = 1000000000L;
  struct timespec now;
  struct timespec end;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += until->tv_sec - now.tv_sec;
  end.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (end.tv_nsec < 0) {
    end.tv_nsec += second;
    end.tv_sec -= 1;
  }
  if (end.tv_nsec >= second) {
    end.tv_nsec -= second;
    end.tv_sec += 1;
  }
  return pthread_cond_timedwait(condition, mutex, &end);
}
