#include "am/launch/supervise/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>

#include "am/base/error.h"
#include "am/base/signals_blocked.h"
#include "am/base/text.h"
#include "am/launch/environment/open_files.h"

namespace am::launch {
namespace {

// Returns the first executable file with this name in PATH, as a shell does; a name with a slash is
// returned unchanged. Called before the fork, because only async-signal-safe calls may follow the
// fork.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    struct stat info = {};
    if (::stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  throw Error(ErrorKind::kIo, cat("cannot start ", name, ": no such program in PATH"));
}

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : changes) variables[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Sends a process id to the socket `fd`, negative for a process that has ended. Does nothing if
// `fd` is -1. Ignores errors, because the program runs even if the other end is closed.
void tell(int fd, pid_t message) {
  if (fd >= 0 && ::send(fd, &message, sizeof(message), MSG_NOSIGNAL) < 0) errno = 0;
}

// Runs the program, in the child. Makes only system calls, because another thread of the parent may
// have held a lock during the fork. First duplicates `error_fd` and the output descriptor to
// numbers above 2: if the parent has closed its standard descriptors, the two originals may have
// the numbers 0 to 2, which dup2() overwrites.
[[noreturn]] void become(const char* program, char** argv, char** envp, const ProcessSpec& spec,
                         int error_fd, pid_t parent) {
  error_fd = ::fcntl(error_fd, F_DUPFD_CLOEXEC, 3);
  const int output_fd = ::fcntl(spec.output_fd, F_DUPFD_CLOEXEC, 3);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before PR_SET_PDEATHSIG was set
  tell(spec.birth_fd, ::getpid());
  const int null_fd = ::open("/dev/null", O_RDONLY);
  if (null_fd > 0) ::dup2(null_fd, STDIN_FILENO);
  ::dup2(output_fd, STDOUT_FILENO);
  ::dup2(output_fd, STDERR_FILENO);
  if (null_fd > 2) ::close(null_fd);
  if (spec.kept_fd >= 0) ::fcntl(spec.kept_fd, F_SETFD, 0);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  // Restores the soft limit of open files that the launcher had before it raised the limit. With a
  // high limit, programs that call select() fail at descriptors above 1,023, and programs that
  // close all possible descriptors start slowly. Programs that need more descriptors raise the
  // limit themselves, as am-run-rank does.
  restore_open_files();
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(program, argv, envp);
  const int reason = errno;
  if (::write(error_fd, &reason, sizeof(reason)) < 0) ::_exit(126);
  ::_exit(127);
}

// Returns the errno of a failed exec; 0 if the exec succeeded, which closes the pipe.
int read_exec_error(int fd) {
  int reason = 0;
  ssize_t count = 0;
  do {
    count = ::read(fd, &reason, sizeof(reason));
  } while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof(reason)) ? reason : 0;
}

}  // namespace

pid_t spawn(const ProcessSpec& spec) {
  AM_ASSERT(!spec.argv.empty() && spec.output_fd >= 0, "spawn needs a program and an output");
  const std::string program = find_program(spec.argv.front());
  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> environment = merged_environment(spec.environment);
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(environment);
  int error_pipe[2];
  if (::pipe2(error_pipe, O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kRuntime, cat("cannot create a pipe: ", std::strerror(errno)));
  }
  const pid_t parent = ::getpid();
  pid_t pid = -1;
  int fork_error = 0;
  {
    const SignalsBlocked blocked;
    pid = ::fork();
    fork_error = errno;
    if (pid == 0) {
      become(program.c_str(), const_cast<char**>(argv.data()), const_cast<char**>(envp.data()),
             spec, error_pipe[1], parent);
    }
  }
  ::close(error_pipe[1]);
  if (pid < 0) {
    ::close(error_pipe[0]);
    throw Error(ErrorKind::kRuntime, cat("cannot start a process: ", std::strerror(fork_error)));
  }
  ::setpgid(pid, pid);  // also called in the child, because either process may run first
  const int exec_error = read_exec_error(error_pipe[0]);
  ::close(error_pipe[0]);
  if (exec_error != 0) {
    ::waitpid(pid, nullptr, 0);
    tell(spec.birth_fd, -pid);
    throw Error(ErrorKind::kIo, cat("cannot start ", program, ": ", std::strerror(exec_error)));
  }
  return pid;
}

}  // namespace am::launch
