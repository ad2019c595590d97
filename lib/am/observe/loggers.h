// Child processes that send the metrics of a run to W&B, MLflow or Comet while the run trains. Each
// reads RUN/metrics.jsonl, so that the job never waits for a service.
//
//   Loggers loggers(logger_commands({"wandb"}, folder, folder / "logs", /*resumed_step=*/0), note);
//   loggers.check();                              // after each step
//   loggers.finish(std::chrono::seconds(10));     // when result.json says that the job has ended
//
// A logger's stdin is a pipe from this process. The pipe is closed when the job is over, even if
// this process is killed. The logger then sends the last steps and ends by itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "am/base/descriptor.h"

namespace am::observe {

struct LoggerCommand {
  std::string name;               // "wandb", "mlflow" or "comet"
  std::vector<std::string> argv;  // program (looked up in PATH if it has no slash) and arguments
  std::filesystem::path log;      // receives the process's output
};

// Returns the commands of the loggers `names` for the run folder `run`. The interpreter is
// $AM_PYTHON, or python3. `resumed_step`: number of steps that were finished before the job. Throws
// Error(kIo) if automesh's Python package is not installed.
std::vector<LoggerCommand> logger_commands(const std::vector<std::string>& names,
                                           const std::filesystem::path& run,
                                           const std::filesystem::path& logs, int64_t resumed_step);

// Returns why the logger `name` cannot run on this machine; nothing if it can. Runs the logger's
// check and waits for its end. Throws Error(kIo) like logger_commands(), or if there is no
// interpreter.
std::optional<std::string> why_no_logger(const std::string& name);

class Loggers {
 public:
  using Note = std::function<void(const std::string& line)>;

  // Starts the processes. `note` receives a line for each process that cannot be started or that
  // fails, now or later.
  Loggers(const std::vector<LoggerCommand>& commands, Note note);
  Loggers(const Loggers&) = delete;
  Loggers& operator=(const Loggers&) = delete;
  // Closes the pipes, and leaves the processes to end by themselves.
  ~Loggers() = default;

  // Calls `note` for each process that has ended. Does not block.
  void check();
  // Closes the pipes, and waits until all processes have ended. Kills the processes that still run
  // after `patience`.
  void finish(std::chrono::milliseconds patience);

 private:
  struct Logger {
    LoggerCommand command;
    pid_t pid = 0;
    Descriptor pipe;
    int64_t log_begin = 0;  // size of the log when the process was started
  };

  // Waits until all processes have ended, at most `patience`. Calls note_ for each process that
  // failed and, if `early`, for each process that ended successfully.
  void wait(std::chrono::milliseconds patience, bool early);

  std::vector<Logger> running_;
  Note note_;
};

}  // namespace am::observe
