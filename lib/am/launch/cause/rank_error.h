// Reports a rank's error to its launcher as a line of JSON in a pipe. Unlike a file, the pipe works
// on a full disk and after the log folder was moved. When the rank's process has ended, the report
// in the pipe is complete.
//
// The environment variable AM_ERROR_PIPE names the pipe. Ranks whose program does not use automesh,
// or whose wrapper script has closed the pipe, report in a small JSON file instead. The launcher
// exports the file's path as AM_ERROR_FILE and as TORCHELASTIC_ERROR_FILE. A Python function with
// the decorator `record` of torch.distributed.elastic writes its error to TORCHELASTIC_ERROR_FILE,
// in torch's format, which the launcher also reads. Torch's format lacks the kind of the error and
// fractions of a second.
//
//   try {
//     train();
//   } catch (const am::Error& error) {
//     launch::report_error(launch::process_environment(), launch::rank_error(error, rank));
//     return error.exit_status();
//   }
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/base/descriptor.h"
#include "am/base/error.h"
#include "am/base/json.h"
#include "am/launch/environment/environment.h"

namespace am::launch {

inline constexpr const char* kErrorFileVariable = "AM_ERROR_FILE";
// The variable with the descriptor and inode of the pipe, for example "7:4026531840". A different
// inode shows that the descriptor was reused for another file.
inline constexpr const char* kErrorPipeVariable = "AM_ERROR_PIPE";
// The kind of an error that another rank may have caused, for example a closed connection. The
// launcher prefers other errors as the cause of a failure.
inline constexpr const char* kPeerError = "peer";
// The kind of the error of a collective that timed out. The rank that reports this error is only a
// witness. The cause is a rank in RankError::missing. That rank may be alive (suspended, or in an
// endless loop) and never report an error.
inline constexpr const char* kHangError = "hang";
// The kind of an error that torch's decorator `record` wrote. The error may be any exception,
// including an exception about a closed connection.
inline constexpr const char* kElasticError = "elastic";

struct RankError {
  int64_t rank = 0;
  std::string message;
  std::string hint;
  // kPeerError, kHangError, kElasticError, or the name of another am::ErrorKind: "usage", "io",
  // "format", "plan", "runtime", "numeric", "internal".
  std::string kind;
  int exit_status = 1;
  std::optional<int64_t> step;
  // The collective that was in progress, for example "all_gather dp_shard #1042"; may be empty.
  std::string last_collective;
  // For kHangError: the ranks of the world that did not arrive at last_collective.
  std::vector<int64_t> missing;
  // When the error was thrown, in seconds since the epoch. 0: unknown. report_error() and
  // write_error_file() replace 0 by the current time.
  double time = 0.0;
};

// Returns the report of an exception: message, hint, kind and exit status. Sets neither the time
// nor the step.
RankError rank_error(const Error& error, int64_t rank);

Json to_json(const RankError& error);
// Parses an error report in automesh's or torch's format. Returns nothing if `json` is not an
// object with a message.
std::optional<RankError> rank_error_from(const Json& json);

// Writes an error file atomically, in automesh's format. Throws Error(kIo) if this fails.
void write_error_file(const std::filesystem::path& path, RankError error);
// Reads an error file. Returns nothing if the file does not exist or is not an error file. The time
// of an error in torch's format is the file's modification time, clamped to the second that begins
// at torch's timestamp.
std::optional<RankError> read_error_file(const std::filesystem::path& path);
// Returns whether the error certainly occurred before `time`, in seconds since the epoch.
bool was_before(const RankError& error, double time);

// The launcher's pipe for the errors of one rank. If the launcher has no free descriptors, the
// object has no pipe, and the rank writes the error file instead.
class ErrorPipe {
 public:
  ErrorPipe();

  // Returns the descriptor that the rank's process inherits; -1 if there is no pipe.
  int write_end() const { return write_.get(); }
  // Returns the value of AM_ERROR_PIPE for the rank; empty if there is no pipe.
  std::string address() const;
  // Closes the launcher's copy of the write end; called once the rank's process has started.
  void close_write_end() { write_ = Descriptor(); }
  // Returns the first error that the rank wrote to the pipe; nothing if the pipe contains no
  // complete report. Does not block.
  std::optional<RankError> read() const;

 private:
  Descriptor read_;
  Descriptor write_;
};

// Writes the error to the pipe of AM_ERROR_PIPE or, if the pipe does not work, to the file of
// AM_ERROR_FILE. Writes nothing if the pipe or the file already contains a report, because later
// errors of a rank are consequences of the first. Returns whether the report was written. Never
// throws, because the process is already failing. `lookup` returns the process's environment.
bool report_error(const EnvironmentLookup& lookup, RankError error) noexcept;

}  // namespace am::launch
