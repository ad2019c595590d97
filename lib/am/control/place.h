// Where a job can be reached, and by whom: RUN/control/, which is the user's alone.
//
//   ControlPlace place(run);                     // rank 0: makes the socket, says where it is
//   Server server(place.take_socket(), ...);
//
//   if (auto job = find_job(run)) ...            // am-repl: is there one, and is it on this machine?
//
//   control/rank-0.sock     0600, in a folder of 0700
//   control/control.json    0600: host, process, boot, socket, protocol; where it listens over TCP
//   control/token           0600: what lets one attach over TCP, where that was asked for
//
// A path that is too long for a socket (107 bytes), or on a file system that has none, is replaced
// by one in $XDG_RUNTIME_DIR/am-UID, else /tmp/am-UID, which must be ours alone.
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

// The longest path of a socket.
inline constexpr size_t kLongestSocketPath = 107;

struct JobAddress {
  std::string host;
  int64_t pid = 0;    // of rank 0
  int64_t begun = 0;  // of the process, in the kernel's ticks: process ids come back
  std::string boot_id;
  std::filesystem::path socket;   // empty: over TCP
  std::optional<TcpAddress> tcp;  // where it listens there too
  std::filesystem::path token;    // the file that is to be shown there
  int64_t protocol = 0;
  std::string slurm_job;  // empty: not under Slurm
};

// Folders in which a socket may be put where the run folder cannot have one, the best first.
std::vector<std::filesystem::path> runtime_folders();

class ControlPlace {
 public:
  // What a dead job has left there is removed; the caller holds the run folder's lock. `fallbacks`:
  // runtime_folders(); `tcp`: listens there too. Throws Error(kIo) where no place is left.
  explicit ControlPlace(const run_folder::RunFolder& run,
                        const std::vector<std::filesystem::path>& fallbacks = runtime_folders(),
                        std::optional<TcpAddress> tcp = std::nullopt);
  ControlPlace(const ControlPlace&) = delete;
  ControlPlace& operator=(const ControlPlace&) = delete;
  // Nobody finds the job any more.
  ~ControlPlace();

  const JobAddress& address() const { return address_; }
  // The listening sockets, which are the caller's from now on; -1 where TCP was not asked for.
  int take_socket();
  int take_tcp_socket();
  // Of TCP.
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
  bool here = false;  // on this machine, and its process lives

  // Over TCP, from another machine.
  bool reachable() const { return here || (address.tcp && !address.tcp->is_loopback()); }
};

// The job that runs in a run folder. Nothing where none can be reached: none was, it ended, or it
// was started with --no-attach. One of another machine counts while it keeps the run's lock fresh.
std::optional<FoundJob> find_job(const run_folder::RunFolder& run);

// How to get to a job of another machine.
std::string way_to(const JobAddress& address, const std::filesystem::path& run);

}  // namespace am::control
