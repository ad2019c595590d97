// Loggers: child processes that send the metrics of a run to W&B, MLflow or Comet during training.
// Each logger reads metrics.jsonl in the run folder, so the job never waits for a service.
//
//   Loggers loggers(logger_commands({"wandb"}, folder, folder / "logs", /*resumed_step=*/0), note);
//   loggers.check();                              // after each step
//   loggers.finish(std::chrono::seconds(10));     // after result.json records the end of the job
//
// A logger's stdin is a pipe from this process. finish() closes the pipe. If this process ends
// before, even by a signal, the system closes the pipe. The logger then sends the last steps and
// ends by itself.
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
// $AM_PYTHON, or python3 if AM_PYTHON is not set. `logs`: folder of the loggers' log files.
// `resumed_step`: number of steps that were finished when the job began. Throws Error(kIo) if
// automesh's Python package is not installed.
std::vector<LoggerCommand> logger_commands(const std::vector<std::string>& names,
                                           const std::filesystem::path& run,
                                           const std::filesystem::path& logs, int64_t resumed_step);

// Returns why the logger `name` cannot run on this machine; nothing if it can. Runs the logger with
// --check and waits for its exit. Throws Error(kIo) like logger_commands(), or if there is no
// interpreter.
std::optional<std::string> why_no_logger(const std::string& name);

class Loggers {
 public:
  using Note = std::function<void(const std::string& line)>;

  // Starts the processes. `note` is called with a line for each process that cannot be started, and
  // from check() and finish() for processes that end early or fail.
  Loggers(const std::vector<LoggerCommand>& commands, Note note);
  Loggers(const Loggers&) = delete;
  Loggers& operator=(const Loggers&) = delete;
  // Closes the pipes, and leaves the processes to end by themselves.
  ~Loggers() = default;

  // Calls `note` for each process that has ended since the last call, with or without an error.
  // Does not block.
  void check();
  // Closes the pipes, and waits until all processes have ended. Kills the processes that still run
  // after `patience`. Calls `note` for each process that failed or was killed.
  void finish(std::chrono::milliseconds patience);

 private:
  struct Logger {
    LoggerCommand command;
    pid_t pid = 0;
    Descriptor pipe;
    int64_t log_begin = 0;  // size of the log when the process was started
  };

  // Waits until all processes have ended, but not longer than `patience`. Calls note_ for each
  // process that has failed. If `early`, also calls note_ for each process that has ended
  // successfully.
  void wait(std::chrono::milliseconds patience, bool early);

  std::vector<Logger> running_;
  Note note_;
};

}  // namespace am::observe
