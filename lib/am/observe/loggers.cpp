#include "am/observe/loggers.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <utility>

#include "am/base/child_process.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/python_folder.h"
#include "am/base/text.h"

namespace am::observe {
namespace {

// Returns how a process has ended, for example "exit status 1"; nothing if the process still runs.
std::optional<std::string> end_of(pid_t pid) {
  int status = 0;
  const pid_t ended = ::waitpid(pid, &status, WNOHANG);
  if (ended == 0) return std::nullopt;
  if (ended < 0) return "unknown status";
  if (WIFSIGNALED(status)) return cat("signal ", WTERMSIG(status));
  return cat("exit status ", WEXITSTATUS(status));
}

// Returns ": " and the last line of a log file, at most 500 bytes. Ignores the first `begin` bytes
// of the file. Empty if no text follows these bytes.
std::string last_words(const std::filesystem::path& log, int64_t begin) {
  constexpr int64_t kMost = 500;
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  const int64_t size = file ? int64_t{file.tellg()} - begin : 0;
  std::string text(static_cast<size_t>(std::clamp<int64_t>(size, 0, kMost)), '\0');
  file.seekg(-static_cast<std::streamoff>(text.size()), std::ios::end);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const std::string_view line = trim(text);
  return line.empty() ? "" : cat(": ", line.substr(line.rfind('\n') + 1));
}

}  // namespace

std::vector<LoggerCommand> logger_commands(const std::vector<std::string>& names,
                                           const std::filesystem::path& run,
                                           const std::filesystem::path& logs,
                                           int64_t resumed_step) {
  const auto package = python_folder();
  if (!package) {
    throw Error(ErrorKind::kIo, "automesh's Python package is not installed beside its libraries");
  }
  const char* chosen = std::getenv("AM_PYTHON");
  std::vector<LoggerCommand> commands;
  for (const std::string& name : names) {
    // Python's flag -B prevents .pyc files in the package's folder. With -u, output is not
    // buffered, so the log also contains all output of a killed process.
    commands.push_back({name,
                        {chosen == nullptr ? "python3" : chosen, "-Bu",
                         (*package / "automesh" / "loggers" / cat(name, "_logger.py")).string(),
                         std::filesystem::absolute(run).string(), cat(resumed_step)},
                        logs / cat("logger-", name, ".log")});
  }
  return commands;
}

std::optional<std::string> why_no_logger(const std::string& name) {
  std::vector<std::string> argv = logger_commands({name}, ".", ".", 0).front().argv;
  argv.resize(3);
  argv.emplace_back("--check");
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const pid_t pid = start_child({.argv = argv, .input_fd = null.get(), .output_fd = null.get()});
  if (await_exit(pid) == 0) return std::nullopt;
  return cat(argv.front(), " is older than 3.11, or has no package for ", name);
}

Loggers::Loggers(const std::vector<LoggerCommand>& commands, Note note) : note_(std::move(note)) {
  for (const LoggerCommand& command : commands) {
    try {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorKind::kIo, "cannot create a pipe");
      const Descriptor input(ends[0]);
      Descriptor pipe(ends[1]);
      const Descriptor log(open_own_file(command.log, O_WRONLY | O_APPEND | O_CREAT));
      if (log.get() < 0) {
        throw Error(ErrorKind::kIo, cat(command.log.string(), ": cannot write"));
      }
      const int64_t begin = ::lseek(log.get(), 0, SEEK_END);
      const pid_t pid = start_child({.argv = command.argv,
                                     .input_fd = input.get(),
                                     .output_fd = log.get(),
                                     .own_session = true});
      running_.push_back({command, pid, std::move(pipe), begin});
    } catch (const Error& error) {
      note_(cat("nothing is sent to ", command.name, ": ", error.what()));
    }
  }
}

void Loggers::check() { wait(std::chrono::milliseconds(0), /*early=*/true); }

void Loggers::wait(std::chrono::milliseconds patience, bool early) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    std::erase_if(running_, [&](const Logger& logger) {
      const auto how = end_of(logger.pid);
      if (how && (early || *how != "exit status 0")) {
        note_(cat("the logger of ", logger.command.name, " has ended (", *how, ")",
                  last_words(logger.command.log, logger.log_begin),
                  "; its log: ", logger.command.log.string()));
      }
      return how.has_value();
    });
    if (running_.empty() || std::chrono::steady_clock::now() >= end) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void Loggers::finish(std::chrono::milliseconds patience) {
  for (Logger& logger : running_) logger.pipe = Descriptor();
  wait(patience, /*early=*/false);
  for (const Logger& logger : running_) {
    note_(cat("the logger of ", logger.command.name, " did not end within ",
              std::chrono::duration<double>(patience).count(),
              " s and was killed: the last steps may not have been sent; its log: ",
              logger.command.log.string()));
    ::kill(-logger.pid, SIGKILL);
  }
  note_ = [](const std::string&) {};
  wait(std::chrono::seconds(1), /*early=*/false);  // reaps the killed processes
}

}  // namespace am::observe
