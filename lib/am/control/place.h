// Creates and finds RUN/control/, the folder with the socket and the address of a running job. Only
// the user who started the job can access the folder.
//
//   ControlPlace place(run);                     // rank 0: creates the socket, writes the address
//   Server server(place.take_socket(), options);
//
//   const auto job = find_job(run);              // am-repl: is a job running, and on this machine?
//
//   control/rank-0.sock     0600, in a folder of 0700
//   control/control.json    0600: host, process, boot id, socket, protocol, TCP address, Slurm job
//   control/token           0600: secret required to attach over TCP, if enabled
//
// If the path of rank-0.sock is too long for a socket (over 107 bytes), or if the file system does
// not support sockets, the socket is in $XDG_RUNTIME_DIR/am-UID or /tmp/am-UID instead. This folder
// must belong to the user and have mode 0700.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/base/descriptor.h"
#include "am/control/tcp.h"
#include "am/control/token.h"
#include "am/run_folder/run_folder.h"

namespace am::control {

// Largest number of bytes in the path of a Unix socket.
inline constexpr size_t kLongestSocketPath = 107;

struct JobAddress {
  std::string host;
  int64_t pid = 0;  // process id of rank 0
  // Start time of process `pid` in kernel clock ticks since boot, to detect that the id was reused.
  int64_t begun = 0;
  std::string boot_id;
  std::filesystem::path socket;   // path of the Unix socket; empty: use TCP
  std::optional<TcpAddress> tcp;  // address for TCP, if the job listens on TCP too
  std::filesystem::path token;    // path of the file with the token for TCP
  int64_t protocol = 0;
  std::string slurm_job;  // Slurm job id; empty: not under Slurm
};

// Returns the folders, in order of preference, for a Unix socket that the run folder cannot
// contain.
std::vector<std::filesystem::path> runtime_folders();

class ControlPlace {
 public:
  // Creates the job's Unix socket and writes the address file. Removes files that a dead job left;
  // the caller must hold the run folder's lock. `fallbacks`: folders for the socket if the run
  // folder cannot contain it. `tcp`: address at which the job also listens. Throws Error(kIo) if
  // RUN/control belongs to another user, if the socket cannot be created in any folder, if the job
  // cannot listen at `tcp`, or if the address file or the token cannot be written.
  explicit ControlPlace(const run_folder::RunFolder& run,
                        const std::vector<std::filesystem::path>& fallbacks = runtime_folders(),
                        std::optional<TcpAddress> tcp = std::nullopt);
  ControlPlace(const ControlPlace&) = delete;
  ControlPlace& operator=(const ControlPlace&) = delete;
  // Removes the address file, the token and the socket, so that clients no longer find the job.
  ~ControlPlace();

  const JobAddress& address() const { return address_; }
  // Return the listening Unix socket and the listening TCP socket; the caller must close them.
  // take_tcp_socket() returns -1 if TCP was not requested.
  int take_socket();
  int take_tcp_socket();
  // Returns the token for TCP; absent if TCP was not requested.
  const std::optional<Token>& token() const { return token_; }

 private:
  void leave();

  std::filesystem::path file_;
  Descriptor folder_;
  JobAddress address_;
  int socket_ = -1;
  int tcp_socket_ = -1;
  std::optional<Token> token_;
};

struct FoundJob {
  JobAddress address;
  bool here = false;  // whether the job's process is visible here (same machine and container)

  // Returns whether a client on this machine can reach the job, possibly over TCP.
  bool reachable() const { return here || (address.tcp && !address.tcp->is_loopback()); }
};

// Returns the job that is running in a run folder. Returns nothing if no job is running there, or
// if the job was started with --no-attach. A job whose process cannot be seen from here, for
// example on another machine, counts as running while the lock file of the run folder is fresh
// (touched within the last minute).
std::optional<FoundJob> find_job(const run_folder::RunFolder& run);

// Returns a shell command that runs am-repl on the job's machine: through srun for a Slurm job,
// otherwise through ssh. `run` is the run folder.
std::string way_to(const JobAddress& address, const std::filesystem::path& run);

}  // namespace am::control
