// How a rank tells its launcher why it failed: a small JSON file that outlives the process.
//
// The launcher exports the path as AM_ERROR_FILE (and as TORCHELASTIC_ERROR_FILE: a Python program
// under torch.distributed.elastic's `record` writes its error there, and it is read as well).
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

#include "am/base/error.h"
#include "am/launch/environment.h"

namespace am::launch {

inline constexpr const char* kErrorFileVariable = "AM_ERROR_FILE";
// The kind of an error whose cause is in another rank: a connection that was closed, a collective
// that timed out. The launcher looks for a better cause when it sees this one.
inline constexpr const char* kPeerError = "peer";

struct RankError {
  int64_t rank = 0;
  std::string message;
  std::string hint;
  std::string kind;  // "peer", or usage, io, format, plan, runtime, internal
  int exit_status = 1;
  std::optional<int64_t> step;
  std::string
      last_collective;  // what the rank was doing: "all_gather dp_shard #1042"; may be empty
  double time = 0.0;    // seconds since the epoch; 0 is replaced by now when written
};

RankError rank_error(const Error& error, int64_t rank);

// Writes the file whole or not at all. Throws Error(kIo).
void write_error_file(const std::filesystem::path& path, RankError error);
// Nothing when there is no such file or it is not an error file.
std::optional<RankError> read_error_file(const std::filesystem::path& path);

// Writes to the file that the launcher named, if it did. Never throws: the process is failing
// already. The first report of a process stands; later ones are consequences. True when this one
// was written.
bool report_error(const EnvironmentLookup& lookup, RankError error) noexcept;

}  // namespace am::launch
