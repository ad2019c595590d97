// Simulates memfd_create of another kernel or a more restrictive machine, by a seccomp filter on
// one thread.
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

// Selects the refused calls by whether they set Linux 6.3's MFD_NOEXEC_SEAL, and their errno.
struct MemfdFilter {
  bool refused_with_seal = false;
  uint32_t error = 0;
};

// Calls `body` in a thread with the filter. Returns false without calling it if filters are not
// permitted.
template <typename Body>
bool with_memfd_filter(const MemfdFilter& filter, const Body& body) {
  constexpr uint32_t kNoExecSeal = 0x0008;
  const uint32_t refuse = SECCOMP_RET_ERRNO | filter.error;
  const uint32_t with = filter.refused_with_seal ? refuse : SECCOMP_RET_ALLOW;
  const uint32_t without = filter.refused_with_seal ? SECCOMP_RET_ALLOW : refuse;
  std::array<sock_filter, 7> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 2),
      // The flags: the low half of the second argument on a little-endian machine.
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kNoExecSeal, 1, 2),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),  // another system call
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
