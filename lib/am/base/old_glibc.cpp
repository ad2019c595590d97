#include "am/base/old_glibc.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace am {
namespace {

constexpr const char* kOwnDescriptors = "/proc/self/fd";
constexpr int64_t kCloseRange = 436;  // system call close_range of Linux 5.9 (x86-64, aarch64)

// Returns the descriptor that an entry of kOwnDescriptors names; -1 for "." and "..".
int descriptor_of(const char* entry) {
  int fd = -1;
  std::from_chars(entry, entry + std::strlen(entry), fd);
  return fd;
}

// The beginning of a directory entry, as the system call getdents64 writes it. The name follows
// `type`.
struct KernelEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t bytes;
  unsigned char type;
};
constexpr size_t kNameBegins = offsetof(KernelEntry, type) + 1;

// Closes all descriptors from `first` on, except `folder`. Returns whether at least one descriptor
// was closed. `folder` is an open descriptor of kOwnDescriptors, the folder that lists the
// process's descriptors.
bool close_entries(int folder, int first) {
  bool closed = false;
  alignas(KernelEntry) std::array<char, 4096> buffer;
  for (;;) {
    const auto size = ::syscall(SYS_getdents64, folder, buffer.data(), buffer.size());
    if (size <= 0) return closed;
    for (int64_t at = 0; at < size;) {
      KernelEntry entry;
      std::memcpy(&entry, &buffer[static_cast<size_t>(at)], kNameBegins);
      const int fd = descriptor_of(&buffer[static_cast<size_t>(at) + kNameBegins]);
      if (fd >= first && fd != folder) closed = ::close(fd) == 0 || closed;
      at += entry.bytes;
    }
  }
}

struct SignalWords {
  int signal;
  const char* name;
  const char* description;
};

// The names and English descriptions of signals, as in glibc.
constexpr SignalWords kSignals[] = {
    {SIGHUP, "HUP", "Hangup"},
    {SIGINT, "INT", "Interrupt"},
    {SIGQUIT, "QUIT", "Quit"},
    {SIGILL, "ILL", "Illegal instruction"},
    {SIGTRAP, "TRAP", "Trace/breakpoint trap"},
    {SIGABRT, "ABRT", "Aborted"},
    {SIGBUS, "BUS", "Bus error"},
    {SIGFPE, "FPE", "Floating point exception"},
    {SIGKILL, "KILL", "Killed"},
    {SIGUSR1, "USR1", "User defined signal 1"},
    {SIGSEGV, "SEGV", "Segmentation fault"},
    {SIGUSR2, "USR2", "User defined signal 2"},
    {SIGPIPE, "PIPE", "Broken pipe"},
    {SIGALRM, "ALRM", "Alarm clock"},
    {SIGTERM, "TERM", "Terminated"},
    {SIGSTKFLT, "STKFLT", "Stack fault"},
    {SIGCHLD, "CHLD", "Child exited"},
    {SIGCONT, "CONT", "Continued"},
    {SIGSTOP, "STOP", "Stopped (signal)"},
    {SIGTSTP, "TSTP", "Stopped"},
    {SIGTTIN, "TTIN", "Stopped (tty input)"},
    {SIGTTOU, "TTOU", "Stopped (tty output)"},
    {SIGURG, "URG", "Urgent I/O condition"},
    {SIGXCPU, "XCPU", "CPU time limit exceeded"},
    {SIGXFSZ, "XFSZ", "File size limit exceeded"},
    {SIGVTALRM, "VTALRM", "Virtual timer expired"},
    {SIGPROF, "PROF", "Profiling timer expired"},
    {SIGWINCH, "WINCH", "Window changed"},
    {SIGPOLL, "POLL", "I/O possible"},
    {SIGPWR, "PWR", "Power failure"},
    {SIGSYS, "SYS", "Bad system call"},
};

const SignalWords* find_signal(int signal) {
  const auto* found = std::find_if(std::begin(kSignals), std::end(kSignals),
                                   [&](const SignalWords& each) { return each.signal == signal; });
  return found == std::end(kSignals) ? nullptr : found;
}

}  // namespace

void close_descriptors_from(int first) {
  if (::syscall(kCloseRange, static_cast<unsigned>(first), ~0U, 0U) != 0) {
    close_listed_descriptors(first);
  }
}

void close_listed_descriptors(int first) {
  int folder = ::open(kOwnDescriptors, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    // The folder cannot be opened without /proc, or if all descriptors are in use.
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const auto last = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
    for (int fd = first; fd < last; ++fd) ::close(fd);
    return;
  }
  // The kernel may skip entries while others are removed, so the folder is read again until nothing
  // is left to close.
  while (close_entries(folder, first)) ::lseek(folder, 0, SEEK_SET);
  ::close(folder);
}

void add_close_from(posix_spawn_file_actions_t& actions, int first) {
  using AddCloseFrom = int (*)(posix_spawn_file_actions_t*, int);
  static const auto glibc = reinterpret_cast<AddCloseFrom>(
      ::dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addclosefrom_np"));
  if (glibc == nullptr || glibc(&actions, first) != 0) add_close_inherited(actions, first);
}

void add_close_inherited(posix_spawn_file_actions_t& actions, int first) {
  DIR* folder = ::opendir(kOwnDescriptors);
  if (folder == nullptr) return;
  while (const dirent* entry = ::readdir(folder)) {
    const int fd = descriptor_of(entry->d_name);
    const int flags = fd < first ? -1 : ::fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) posix_spawn_file_actions_addclose(&actions, fd);
  }
  ::closedir(folder);
}

const char* signal_name(int signal) {
  const SignalWords* found = find_signal(signal);
  return found == nullptr ? nullptr : found->name;
}

const char* signal_description(int signal) {
  const SignalWords* found = find_signal(signal);
  return found == nullptr ? nullptr : found->description;
}

}  // namespace am
