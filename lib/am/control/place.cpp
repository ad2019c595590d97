#include "am/control/place.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "am/base/descriptor.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/host.h"
#include "am/base/json_integer.h"
#include "am/base/text.h"
#include "am/control/frame.h"
#include "am/run_folder/process_begin.h"

namespace am::control {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFileName = "control.json";
constexpr const char* kTokenName = "token";
constexpr const char* kSocketName = "rank-0.sock";
constexpr int kBacklog = 64;
// Age up to which a lock file counts as fresh. The job that holds a run folder touches the folder's
// lock file every five seconds; the margin covers differences between the clocks of machines.
constexpr auto kLockIsFresh = std::chrono::seconds(60);

Error cannot_place(const fs::path& path, const char* what) {
  return Error(ErrorKind::kIo, cat(path.string(), ": ", what, ": ", std::strerror(errno)));
}

// Creates the folder if it is missing, and opens it. With `fix`, then removes the access of other
// users; `fix` is meant only for a folder inside a folder of this user. Throws Error(kIo) if other
// users can access the folder, if it belongs to another user, or if it cannot be created or opened.
Descriptor require_private(const fs::path& folder, bool fix) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw cannot_place(folder, "cannot create the folder");
  }
  Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.get() < 0) throw cannot_place(folder, "cannot open the folder");
  struct stat info = {};
  bool is_private = ::fstat(fd.get(), &info) == 0 && info.st_uid == ::geteuid();
  if (is_private && (info.st_mode & 0077) != 0) is_private = fix && ::fchmod(fd.get(), 0700) == 0;
  if (is_private) return fd;
  throw Error(ErrorKind::kIo,
              cat(folder.string(), ": this folder must be accessible only to this user"),
              "its owner must be this user, and its permissions 0700");
}

sockaddr_un address_of(const fs::path& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.native().size());
  return address;
}

int new_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

// Creates a socket that listens at the path, with permissions for this user only. On failure,
// returns -1 and sets errno.
int listen_at(const fs::path& path) {
  if (path.native().size() > kLongestSocketPath) {
    errno = ENAMETOOLONG;
    return -1;
  }
  const int fd = new_socket();
  if (fd < 0) return -1;
  ::unlink(path.c_str());
  const sockaddr_un address = address_of(path);
  // The permissions are set on the socket before bind, because on Linux the socket file inherits
  // them. umask() is not used, because it would also affect files that other threads create.
  const bool listens =
      ::fchmod(fd, 0600) == 0 &&
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::chmod(path.c_str(), 0600) == 0 && ::listen(fd, kBacklog) == 0;
  if (listens) return fd;
  const int reason = errno;
  ::close(fd);
  errno = reason;
  return -1;
}

bool nobody_listens(const fs::path& socket) {
  const int fd = new_socket();
  if (fd < 0) return false;
  const sockaddr_un address = address_of(socket);
  const int result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const bool refused = result != 0 && (errno == ECONNREFUSED || errno == ENOENT);
  ::close(fd);
  return refused;
}

// Removes the sockets of ended jobs, on which no process listens, from a runtime folder.
void sweep(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const bool is_socket = entry.is_socket(ignored);
    const bool fits = entry.path().native().size() <= kLongestSocketPath;
    if (is_socket && fits && nobody_listens(entry.path())) fs::remove(entry.path(), ignored);
  }
}

void write_privately(const fs::path& file, const std::string& text) {
  const fs::path partial = cat(file.string(), ".", unique_id());
  const int fd = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) throw cannot_place(partial, "cannot create the file");
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool closed = ::close(fd) == 0;
  if (written && closed && ::rename(partial.c_str(), file.c_str()) == 0) return;
  const int reason = errno;
  ::unlink(partial.c_str());
  errno = reason;
  throw cannot_place(file, "cannot write the file");
}

std::string text_of(const JobAddress& address) {
  const Json json = {{"protocol", address.protocol},
                     {"host", address.host},
                     {"pid", address.pid},
                     {"begun", address.begun},
                     {"boot_id", address.boot_id},
                     {"socket", address.socket.string()},
                     {"tcp", address.tcp ? Json(address.tcp->text()) : Json(nullptr)},
                     {"slurm_job", address.slurm_job}};
  return dump_json(json) + "\n";
}

std::optional<JobAddress> address_in(const fs::path& file) {
  constexpr size_t kMost = 65536;
  try {
    const auto json = parse_message(read_file(file, kMost));
    if (!json) return std::nullopt;
    JobAddress address;
    address.protocol = integer_of(json->at("protocol"));
    address.host = json->at("host").get<std::string>();
    address.pid = integer_of(json->at("pid"));
    address.begun = integer_of(json->at("begun"));
    address.boot_id = json->at("boot_id").get<std::string>();
    address.socket = json->at("socket").get<std::string>();
    address.slurm_job = json->value("slurm_job", "");
    const auto tcp = json->find("tcp");
    if (tcp != json->end() && tcp->is_string()) {
      address.tcp = parse_tcp(tcp->get<std::string>());
      address.token = file.parent_path() / kTokenName;
    }
    return address;
  } catch (const std::exception&) {  // the file is incomplete or invalid
    return std::nullopt;
  }
}

// Returns whether the run folder's lock file was touched recently. A fresh lock file shows that the
// job runs, even on another machine, whose processes this process cannot see.
bool lock_is_fresh(const run_folder::RunFolder& run) {
  struct stat info = {};
  if (::stat((run.root() / "lock").c_str(), &info) != 0 || info.st_size == 0) return false;
  const auto touched = std::chrono::system_clock::from_time_t(info.st_mtim.tv_sec);
  return std::chrono::system_clock::now() - touched < kLockIsFresh;
}

}  // namespace

std::vector<fs::path> runtime_folders() {
  std::vector<fs::path> folders;
  const std::string name = cat("am-", ::geteuid());
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') folders.push_back(fs::path(runtime) / name);
  folders.push_back(fs::path("/tmp") / name);
  return folders;
}

ControlPlace::ControlPlace(const run_folder::RunFolder& run, const std::vector<fs::path>& fallbacks,
                           std::optional<TcpAddress> tcp)
    : file_(fs::absolute(run.control() / kFileName)) {
  const fs::path folder = file_.parent_path();
  folder_ = require_private(folder, /*fix=*/true);
  // If an address file exists already, a dead job left it, because this process holds the lock of
  // the run folder.
  ::unlink(file_.c_str());
  address_.protocol = kProtocol;
  address_.host = host_name();
  address_.pid = ::getpid();
  address_.begun = run_folder::process_begin(::getpid());
  address_.boot_id = boot_id();
  if (const char* job = std::getenv("SLURM_JOB_ID")) address_.slurm_job = job;
  address_.socket = folder / kSocketName;
  socket_ = listen_at(address_.socket);
  std::string reasons;
  if (socket_ < 0) reasons = cat(address_.socket.string(), ": ", std::strerror(errno));
  for (const fs::path& fallback : fallbacks) {
    if (socket_ >= 0) break;
    try {
      require_private(fallback, /*fix=*/false);
      sweep(fallback);
      address_.socket = fallback / cat(unique_id(), ".sock");
      socket_ = listen_at(address_.socket);
      if (socket_ < 0) reasons += cat("; ", address_.socket.string(), ": ", std::strerror(errno));
    } catch (const Error& error) {
      reasons += cat("; ", error.what());
    }
  }
  if (socket_ < 0)
    throw Error(ErrorKind::kIo, cat("no folder can hold the job's socket: ", reasons));
  try {
    if (tcp) {
      tcp_socket_ = listen_tcp(*tcp);
      token_ = Token::make();
      address_.token = folder / kTokenName;
      write_privately(address_.token, token_->text() + "\n");
      address_.tcp = std::move(tcp);
    }
    write_privately(file_, text_of(address_));
  } catch (const Error&) {
    leave();
    throw;
  }
}

// Removes the files of RUN/control through the folder's descriptor, not through its path: the run
// folder may have been moved, and its old path may now belong to another job.
void ControlPlace::leave() {
  const int folder = folder_.get();
  ::unlinkat(folder, kFileName, 0);
  if (!address_.token.empty()) ::unlinkat(folder, kTokenName, 0);
  if (address_.socket.parent_path() == file_.parent_path()) {
    ::unlinkat(folder, kSocketName, 0);
  } else {
    ::unlink(address_.socket.c_str());
  }
  const Descriptor run(::openat(folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Removes the folder if it is empty; otherwise unlinkat() fails and the folder remains.
  ::unlinkat(run.get(), file_.parent_path().filename().c_str(), AT_REMOVEDIR);
  for (const int socket : {socket_, tcp_socket_}) {
    if (socket >= 0) ::close(socket);
  }
}

ControlPlace::~ControlPlace() { leave(); }

int ControlPlace::take_socket() { return std::exchange(socket_, -1); }

int ControlPlace::take_tcp_socket() { return std::exchange(tcp_socket_, -1); }

std::optional<FoundJob> find_job(const run_folder::RunFolder& run) {
  const auto address = address_in(run.control() / kFileName);
  if (!address) return std::nullopt;
  FoundJob found{*address, false};
  if (!address->boot_id.empty() && address->boot_id == boot_id()) {
    // A matching boot id does not prove that this process can see the job: containers on one
    // machine share the boot id, but may not see the processes of each other.
    found.here = address->begun != 0 && run_folder::process_begin(address->pid) == address->begun;
    const bool fits = address->socket.native().size() <= kLongestSocketPath;
    // A live process does not prove that the job can be attached to: while a job exits, its socket
    // is closed before its process ends.
    if (found.here && (!fits || nobody_listens(address->socket))) return std::nullopt;
    if (found.here) return found;
    if (address->host == host_name()) return std::nullopt;
  }
  if (!lock_is_fresh(run)) return std::nullopt;
  return found;
}

std::string way_to(const JobAddress& address, const fs::path& run) {
  const std::string command = cat("am-repl ", fs::absolute(run).string());
  if (address.slurm_job.empty()) return cat("ssh ", address.host, " ", command);
  return cat("srun --overlap --jobid ", address.slurm_job, " --nodelist ", address.host,
             " --ntasks 1 --pty ", command);
}

}  // namespace am::control
