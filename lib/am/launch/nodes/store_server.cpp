#include "am/launch/nodes/store_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/environment/open_files.h"
#include "am/launch/nodes/store_table.h"

namespace am::launch {

namespace {

// Largest number of connections that the kernel queues until the server accepts them. The number is
// large because thousands of ranks may connect at the same moment.
constexpr int kBacklog = 4096;
// Milliseconds after which the server calls accept() again, if accept() failed for lack of
// resources.
constexpr int kCrowdedLook = 200;

// Returns whether accept() failed for lack of resources. accept() then fails again until resources
// are freed. `problem`: errno of accept().
bool is_exhaustion(int problem) {
  return problem == EMFILE || problem == ENFILE || problem == ENOBUFS || problem == ENOMEM;
}

struct Listener {
  int fd = -1;
  int problem = 0;  // errno of the call that failed; 0: no call failed
};

Listener listen_on(int family, const sockaddr* address, socklen_t size) {
  Listener listener;
  listener.fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  const int no = 0;
  if (family == AF_INET6) {
    ::setsockopt(listener.fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
  ::setsockopt(listener.fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (listener.fd >= 0 && ::bind(listener.fd, address, size) == 0 &&
      ::listen(listener.fd, kBacklog) == 0) {
    return listener;
  }
  listener.problem = errno;
  if (listener.fd >= 0) ::close(listener.fd);
  listener.fd = -1;
  return listener;
}

Listener listen_v4(int port, in_addr_t host) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(host);
  return listen_on(AF_INET, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

// Listens on all IPv6 and IPv4 addresses. If this fails although the port is free, listens on all
// IPv4 addresses only.
Listener listen_on_network(int port) {
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  address.sin6_addr = in6addr_any;
  const Listener both =
      listen_on(AF_INET6, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (both.fd >= 0 || both.problem == EADDRINUSE) return both;
  return listen_v4(port, INADDR_ANY);
}

int port_of(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  const bool v6 = address.ss_family == AF_INET6;
  return ntohs(v6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                  : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

class StoreServer::Loop {
 public:
  Loop(int listener, StoreTrouble trouble)
      : trouble_(std::move(trouble)),
        listener_(listener),
        poll_(::epoll_create1(EPOLL_CLOEXEC)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    watch(listener_, EPOLLIN);
    watch(wake_, EPOLLIN);
    thread_ = std::thread([this] { run(); });
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake();
    thread_.join();
    for (const auto& [fd, client] : clients_) ::close(fd);
    for (const int fd : {listener_, poll_, wake_}) ::close(fd);
  }

  std::optional<std::string> get(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const std::string* value = table_.find(key);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }

  void set(const std::string& key, const std::string& value) {
    {
      const std::lock_guard lock(mutex_);
      table_.set(key, value);
    }
    wake();  // makes the serving thread answer clients that wait for this key
  }

  StoreLoad load() {
    StoreLoad load;
    clockid_t clock;
    timespec time = {};
    if (::pthread_getcpuclockid(thread_.native_handle(), &clock) == 0) {
      ::clock_gettime(clock, &time);
    }
    load.processor_seconds =
        static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    const std::lock_guard lock(mutex_);
    load.bytes_sent = bytes_sent_;
    load.connections = static_cast<int64_t>(clients_.size());
    load.requests = table_.served();
    return load;
  }

 private:
  struct Client {
    std::string in;
    std::string out;
    bool blocked = false;  // the socket's send buffer is full, so `out` waits
  };

  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof(one));
  }

  void watch(int fd, uint32_t events, int operation = EPOLL_CTL_ADD) const {
    epoll_event event = {};
    event.events = events;
    event.data.fd = fd;
    ::epoll_ctl(poll_, operation, fd, &event);
  }

  void run() {
    std::array<epoll_event, 256> events;
    for (;;) {
      const int patience = crowded_ ? kCrowdedLook : -1;
      const int count = ::epoll_wait(poll_, events.data(), events.size(), patience);
      {
        const std::lock_guard lock(mutex_);
        if (stop_) return;
        for (int i = 0; i < count; ++i) {
          handle(events[static_cast<size_t>(i)].data.fd, events[static_cast<size_t>(i)].events);
        }
        flush_woken();
        if (crowded_) accept_all();
      }
      const std::string words = std::exchange(words_, {});
      if (!words.empty() && trouble_) trouble_(words);
    }
  }

  void handle(int fd, uint32_t events) {
    if (fd == wake_) {
      uint64_t ignored;
      [[maybe_unused]] const auto size = ::read(wake_, &ignored, sizeof(ignored));
    } else if (fd == listener_) {
      accept_all();
    } else {
      const bool read = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
      if ((read && !receive(fd)) || !send(fd)) drop(fd);
    }
  }

  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (fd < 0) return crowd(is_exhaustion(errno) ? errno : 0);
      const int yes = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
      clients_[fd];
      watch(fd, EPOLLIN);
    }
  }

  // Stops polling the listening socket if accept() failed for lack of resources, because epoll
  // would report the waiting clients again and again. Polls the socket again if `problem` is 0.
  // `problem`: errno of accept(); 0: accept() did not lack resources.
  void crowd(int problem) {
    const bool crowded = problem != 0;
    if (crowded == crowded_) return;
    crowded_ = crowded;
    watch(listener_, crowded ? 0U : uint32_t{EPOLLIN}, EPOLL_CTL_MOD);
    if (!crowded) return;
    words_ = cat("the job's store cannot accept another connection: ", std::strerror(problem), "; ",
                 clients_.size(), " are open");
    if (problem == EMFILE) {
      words_ += cat(", and this process may have ", open_file_limit().soft,
                    " files open; raise the limit: ulimit -n");
    }
  }

  // Reads bytes from a client and serves its complete requests. Returns false if the client has
  // closed the connection or does not follow the protocol.
  bool receive(int fd) {
    Client& client = clients_.at(fd);
    std::array<char, 1 << 16> bytes;
    const ssize_t size = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (size == 0) return false;
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    client.in.append(bytes.data(), static_cast<size_t>(size));
    const auto used = table_.serve(fd, client.in, client.out);
    if (!used) return false;
    client.in.erase(0, *used);
    return true;
  }

  bool send(int fd) {
    Client& client = clients_.at(fd);
    while (!client.out.empty()) {
      const ssize_t size = ::send(fd, client.out.data(), client.out.size(), MSG_NOSIGNAL);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno != EAGAIN) return false;
      if (size < 0) break;
      bytes_sent_ += size;
      client.out.erase(0, static_cast<size_t>(size));
    }
    const bool blocked = !client.out.empty();
    if (blocked != client.blocked) {
      client.blocked = blocked;
      watch(fd, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
    }
    return true;
  }

  void flush_woken() {
    for (const int fd : std::exchange(woken_, {})) {
      const auto client = clients_.find(fd);
      if (client == clients_.end()) continue;
      store::append(client->second.out, store::WaitAnswer::kReady);
      if (!send(fd)) drop(fd);
    }
  }

  void drop(int fd) {
    table_.forget(fd);
    clients_.erase(fd);
    std::erase(woken_, fd);
    // A new child process has a copy of the socket until its exec. Without this call, epoll would
    // report the socket as long as the copy exists.
    watch(fd, 0, EPOLL_CTL_DEL);
    ::close(fd);
  }

  const StoreTrouble trouble_;
  std::mutex mutex_;
  bool stop_ = false;
  bool crowded_ = false;  // whether accept() lacks resources, so that the listener is not polled
  std::string words_;     // next message for trouble_, which run() calls without the lock
  int64_t bytes_sent_ = 0;
  std::vector<int> woken_;  // sockets of clients for which all awaited keys now exist
  store::Table table_{[this](int client) { woken_.push_back(client); }};
  std::unordered_map<int, Client> clients_;  // by socket
  int listener_ = -1;
  int poll_ = -1;
  int wake_ = -1;
  std::thread thread_;
};

StoreServer::StoreServer(int port, BindScope reach, StoreTrouble trouble) {
  const Listener listener =
      reach == BindScope::kNetwork ? listen_on_network(port) : listen_v4(port, INADDR_LOOPBACK);
  if (listener.problem == EADDRINUSE) {
    throw Error(ErrorKind::kPeer, cat("port ", port, " of this machine is in use"),
                "another job may use it: choose another port");
  }
  if (listener.fd < 0) {
    throw Error(ErrorKind::kPeer,
                cat("cannot serve port ", port, ": ", std::strerror(listener.problem)));
  }
  port_ = port_of(listener.fd);
  loop_ = std::make_unique<Loop>(listener.fd, std::move(trouble));
}

StoreServer::~StoreServer() = default;

StoreLoad StoreServer::load() const { return loop_->load(); }

std::optional<std::string> StoreServer::get(const std::string& key) const {
  return loop_->get(cat(store::kKeyPrefix, key));
}

void StoreServer::set(const std::string& key, const std::string& value) {
  loop_->set(cat(store::kKeyPrefix, key), value);
}

}  // namespace am::launch
