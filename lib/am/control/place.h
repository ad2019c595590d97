// Rendezvous of a job and its clients: RUN/control/, accessible only to the user.
//
//   ControlPlace place(run);                     // rank 0: creates the socket, writes the address
//   Server server(place.take_socket(), options);
//
//   const auto job = find_job(run);              // am-repl: is a job running, and on this machine?
//
//   control/rank-0.sock     0600, in a folder of 0700
//   control/control.json    0600: host, process, boot, socket, protocol; the TCP address, if any
//   control/token           0600: secret required to attach over TCP, if enabled
//
// If the path is too long for a socket (107 bytes), or the file system does not support sockets,
// the socket is in $XDG_RUNTIME_DIR/am-UID or /tmp/am-UID, which must belong to the user alone.
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

// Longest path of a socket.
inline constexpr size_t kLongestSocketPath = 107;

struct JobAddress {
  std::string host;
  int64_t pid = 0;    // of rank 0
  int64_t begun = 0;  // start time of the process in kernel ticks, since process ids are reused
  std::string boot_id;
  std::filesystem::path socket;   // empty: use TCP
  std::optional<TcpAddress> tcp;  // set if the job listens on TCP too
  std::filesystem::path token;    // token file for TCP
  int64_t protocol = 0;
  std::string slurm_job;  // empty: not under Slurm
};

// Folders for a socket that cannot be in the run folder, in order of preference.
std::vector<std::filesystem::path> runtime_folders();

class ControlPlace {
 public:
  // Removes leftovers of a dead job; the caller must hold the run folder's lock. `fallbacks`:
  // runtime_folders(); `tcp`: also listen there. Throws Error(kIo) if no place is usable.
  explicit ControlPlace(const run_folder::RunFolder& run,
                        const std::vector<std::filesystem::path>& fallbacks = runtime_folders(),
                        std::optional<TcpAddress> tcp = std::nullopt);
  ControlPlace(const ControlPlace&) = delete;
  ControlPlace& operator=(const ControlPlace&) = delete;
  // Removes the address, so that clients no longer find the job.
  ~ControlPlace();

  const JobAddress& address() const { return address_; }
  // Transfer the listening sockets to the caller; -1 if TCP was not requested.
  int take_socket();
  int take_tcp_socket();
  // Token for TCP.
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
  bool here = false;  // on this machine, and its process is alive

  // Whether the job can be reached from here, possibly over TCP.
  bool reachable() const { return here || (address.tcp && !address.tcp->is_loopback()); }
};

// Returns the job that is running in a run folder; nothing if there is none, it has ended, or it
// was started with --no-attach. A job on another machine counts while it keeps the run's lock
// fresh.
std::optional<FoundJob> find_job(const run_folder::RunFolder& run);

// Describes how to reach a job on another machine.
std::string way_to(const JobAddress& address, const std::filesystem::path& run);

}  // namespace am::control
