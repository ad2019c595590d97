// How a rank tells its launcher why it failed: a line of JSON in a pipe, which no full disk and no
// folder that was moved can hold up, and which is there when the process has ended.
//
// AM_ERROR_PIPE is the pipe. Where a program that starts the rank has closed it, and for programs
// that are not ours, there is a small JSON file: the launcher exports its path as AM_ERROR_FILE
// (and as TORCHELASTIC_ERROR_FILE: a Python program under torch.distributed.elastic's `record`
// writes its error there, and it is read as well). What that file lacks: the kind of the error, and
// fractions of a second.
//
//   try { train(...); } catch (const am::Error& error) {
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
// Descriptor and inode of the pipe: "7:4026531840". The number alone may be another file's by now.
inline constexpr const char* kErrorPipeVariable = "AM_ERROR_PIPE";
// The kind of an error whose cause is in another rank: a connection that was closed, a collective
// that timed out. The launcher looks for a better cause when it sees this one.
inline constexpr const char* kPeerError = "peer";
// The kind of a collective that ran out of time. Its reporter is a witness: the culprits are the
// ranks in `missing`, which may be alive (stopped, in an endless loop) and never report anything.
inline constexpr const char* kHangError = "hang";
// The kind of what torch's `record` wrote: any exception, also one about a connection that was
// closed.
inline constexpr const char* kElasticError = "elastic";

struct RankError {
  int64_t rank = 0;
  std::string message;
  std::string hint;
  std::string kind;  // "peer", "hang", "elastic", or usage, io, format, plan, runtime,
                     // numeric, internal
  int exit_status = 1;
  std::optional<int64_t> step;
  std::string
      last_collective;  // what the rank was doing: "all_gather dp_shard #1042"; may be empty
  // Of a hang: ranks of the world that did not arrive at last_collective.
  std::vector<int64_t> missing;
  double time = 0.0;  // seconds since the epoch; 0 is replaced by now when written
};

RankError rank_error(const Error& error, int64_t rank);

Json to_json(const RankError& error);
// Nothing when it is no error report: another type, or no message.
std::optional<RankError> rank_error_from(const Json& json);

// Writes the file whole or not at all. Throws Error(kIo).
void write_error_file(const std::filesystem::path& path, RankError error);
// Nothing when there is no such file or it is not an error file. The time of an elastic error is
// the file's, within the second that the file names.
std::optional<RankError> read_error_file(const std::filesystem::path& path);
// The error was reported before that wall time, for certain.
bool was_before(const RankError& error, double time);

// The launcher's pipe for the errors of one rank. Where descriptors have run out there is none, and
// the rank writes the file instead.
class ErrorPipe {
 public:
  ErrorPipe();

  // The end that the rank's process inherits, -1 where there is none, and the value of its
  // environment variable.
  int write_end() const { return write_.get(); }
  std::string address() const;
  // The launcher's copy is closed once the process was started.
  void close_write_end() { write_ = Descriptor(); }
  // The first error that the rank reported; nothing where it reported none. Never waits.
  std::optional<RankError> read() const;

 private:
  Descriptor read_;
  Descriptor write_;
};

// Writes to the pipe or, where there is none, the file that the launcher named. Never throws: the
// process is failing already. The first report of a process stands; later ones are consequences.
// True when this one was written.
bool report_error(const EnvironmentLookup& lookup, RankError error) noexcept;

}  // namespace am::launch
