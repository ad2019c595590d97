// Reports a rank's error to its launcher as a line of JSON in a pipe. Unlike a file, the pipe works
// on a full disk and after a folder was moved, and the report is complete when the process has
// ended.
//
// AM_ERROR_PIPE names the pipe. Ranks of other programs, and ranks whose wrapper has closed the
// pipe, report in a small JSON file instead. The launcher exports the file's path as AM_ERROR_FILE,
// and as TORCHELASTIC_ERROR_FILE: a Python program under torch.distributed.elastic's `record`
// writes its error to that path, and the launcher reads torch's format too. Torch's format lacks
// the kind of the error and fractions of a second.
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
// The variable with the descriptor and inode of the pipe, for example "7:4026531840". The inode
// detects a descriptor number that was reused for another file.
inline constexpr const char* kErrorPipeVariable = "AM_ERROR_PIPE";
// The kind of an error that another rank caused, for example a closed connection. The launcher then
// searches for a better cause.
inline constexpr const char* kPeerError = "peer";
// The kind of the error of a collective that timed out. The rank that reports this error is only a
// witness. The cause is a rank in `missing`, which may be alive (stopped, or in an endless loop)
// and never report.
inline constexpr const char* kHangError = "hang";
// The kind of an error that torch's `record` wrote: any exception, including one about a closed
// connection.
inline constexpr const char* kElasticError = "elastic";

struct RankError {
  int64_t rank = 0;
  std::string message;
  std::string hint;
  // kPeerError, kHangError or kElasticError, or another kind of am::Error: "usage", "io", "format",
  // "plan", "runtime", "numeric", "internal".
  std::string kind;
  int exit_status = 1;
  std::optional<int64_t> step;
  // The collective that was in progress, for example "all_gather dp_shard #1042"; may be empty.
  std::string last_collective;
  // For kHangError: the ranks of the world that did not arrive at last_collective.
  std::vector<int64_t> missing;
  // When the error was thrown, in seconds since the epoch. 0: unknown; the time at which the report
  // is written then replaces it.
  double time = 0.0;
};

RankError rank_error(const Error& error, int64_t rank);

Json to_json(const RankError& error);
// Parses an error report of automesh or torch. Returns nothing if `json` is not an object with a
// message.
std::optional<RankError> rank_error_from(const Json& json);

// Writes an error file atomically. Throws Error(kIo).
void write_error_file(const std::filesystem::path& path, RankError error);
// Reads an error file. Returns nothing if the file does not exist or is not an error file. The time
// of a kElasticError is the file's modification time, clamped to the whole second of torch's
// timestamp.
std::optional<RankError> read_error_file(const std::filesystem::path& path);
// Returns whether the error certainly occurred before the wall-clock time `time`.
bool was_before(const RankError& error, double time);

// The launcher's pipe for the errors of one rank. If the launcher has no descriptors left, there is
// no pipe, and the rank writes the error file instead.
class ErrorPipe {
 public:
  ErrorPipe();

  // Returns the descriptor that the rank's process inherits; -1 if there is no pipe.
  int write_end() const { return write_.get(); }
  // Returns the value of AM_ERROR_PIPE for the rank; empty if there is no pipe.
  std::string address() const;
  // Closes the launcher's copy of the write end; called once the rank's process has started.
  void close_write_end() { write_ = Descriptor(); }
  // Returns the first error that the rank reported; nothing if it reported none. Does not block.
  std::optional<RankError> read() const;

 private:
  Descriptor read_;
  Descriptor write_;
};

// Writes the error to the pipe of AM_ERROR_PIPE or, without a pipe, to the file of AM_ERROR_FILE.
// Never throws, because the process is already failing. Only the first report of a process is
// written, because later errors are its consequences. Returns true if this report was written.
bool report_error(const EnvironmentLookup& lookup, RankError error) noexcept;

}  // namespace am::launch
