// A seccomp filter that makes memfd_create fail on one thread, as an older kernel or a more
// restrictive machine does.
//
//   const MemfdFilter strict = {.refused_with_seal = false, .error = EACCES};
//   const bool filtered = with_memfd_filter(strict, [&] { fd = open_memory_file("x"); });
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <thread>

// Selects the calls of memfd_create that fail: those with Linux 6.3's flag MFD_NOEXEC_SEAL, or
// those without it. `error` is their errno.
struct MemfdFilter {
  bool refused_with_seal = false;
  uint32_t error = 0;
};

// Calls `body` in a thread with the filter. Returns false, without calling `body`, if the system
// forbids filters.
template <typename Body>
bool with_memfd_filter(const MemfdFilter& filter, const Body& body) {
  constexpr uint32_t kNoExecSeal = 0x0008;
  const uint32_t refuse = SECCOMP_RET_ERRNO | filter.error;
  const uint32_t with = filter.refused_with_seal ? refuse : SECCOMP_RET_ALLOW;
  const uint32_t without = filter.refused_with_seal ? SECCOMP_RET_ALLOW : refuse;
  std::array<sock_filter, 7> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 2),
      // Loads the call's flags: on a little-endian machine, the low half of the second argument.
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kNoExecSeal, 1, 2),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),  // allows all other system calls
      BPF_STMT(BPF_RET | BPF_K, with),
      BPF_STMT(BPF_RET | BPF_K, without),
  }};
  bool filtered = false;
  std::thread([&] {
    const sock_fprog whole = {program.size(), program.data()};
    filtered = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
               ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) == 0;
    if (filtered) body();
  }).join();
  return filtered;
}
