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
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/nodes/store_table.h"

namespace am::launch {

namespace {

// Thousands of ranks connect at the same moment.
constexpr int kBacklog = 4096;

struct Listener {
  int fd = -1;
  int problem = 0;  // errno
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

// Of both families, where the machine has both.
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
  explicit Loop(int listener)
      : listener_(listener),
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
    wake();  // the thread sends to whom that has woken
  }

 private:
  struct Client {
    std::string in;
    std::string out;
    bool blocked = false;  // its socket is full
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
      const int count = ::epoll_wait(poll_, events.data(), events.size(), -1);
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      for (int i = 0; i < count; ++i) {
        handle(events[static_cast<size_t>(i)].data.fd, events[static_cast<size_t>(i)].events);
      }
      flush_woken();
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
      if (fd < 0) return;
      const int yes = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
      clients_[fd];
      watch(fd, EPOLLIN);
    }
  }

  // False: the client is gone, or is none of ours.
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
    ::close(fd);
  }

  std::mutex mutex_;
  bool stop_ = false;
  std::vector<int> woken_;  // clients whose keys have come
  store::Table table_{[this](int client) { woken_.push_back(client); }};
  std::map<int, Client> clients_;  // by socket
  int listener_ = -1;
  int poll_ = -1;
  int wake_ = -1;
  std::thread thread_;
};

StoreServer::StoreServer(int port, Reach reach) {
  const Listener listener =
      reach == Reach::kNetwork ? listen_on_network(port) : listen_v4(port, INADDR_LOOPBACK);
  if (listener.problem == EADDRINUSE) {
    throw Error(ErrorKind::kPeer, cat("port ", port, " of this machine is in use"),
                "another job may have it: choose another port");
  }
  if (listener.fd < 0) {
    throw Error(ErrorKind::kPeer,
                cat("cannot serve port ", port, ": ", std::strerror(listener.problem)));
  }
  port_ = port_of(listener.fd);
  loop_ = std::make_unique<Loop>(listener.fd);
}

StoreServer::~StoreServer() = default;

std::optional<std::string> StoreServer::get(const std::string& key) const {
  return loop_->get(cat(store::kKeyPrefix, key));
}

void StoreServer::set(const std::string& key, const std::string& value) {
  loop_->set(cat(store::kKeyPrefix, key), value);
}

}  // namespace am::launch
