#include "am/launch/nodes/stores.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/nodes/store_protocol.h"

namespace am::launch {

namespace {

using Clock = std::chrono::steady_clock;

// Limits the time for which a call of connect(), send() or recv() on the socket blocks; 0: no
// limit.
void limit_calls(int fd, std::chrono::milliseconds limit) {
  timeval time = {};
  time.tv_sec = limit.count() / 1000;
  time.tv_usec = limit.count() % 1000 * 1000;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

struct Addresses {
  // List of the host's addresses; null if the name cannot be resolved.
  std::shared_ptr<const addrinfo> first;
  std::string problem;  // why the name cannot be resolved
};

Addresses addresses_of(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), cat(port).c_str(), &hints, &found);
  if (status != 0) return {nullptr, ::gai_strerror(status)};
  return {{found, &::freeaddrinfo}, {}};
}

// Resolves a host name in a detached thread, because getaddrinfo() may block for more than 10 s if
// the name service does not respond.
std::future<Addresses> ask_for_addresses(const std::string& host, int port) {
  auto task = std::make_shared<std::packaged_task<Addresses()>>(
      [host, port] { return addresses_of(host, port); });
  std::future<Addresses> answer = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  return answer;
}

// Tries each address once, until a connection succeeds. Returns the connected socket. If no
// connection succeeds, returns -1 and sets `problem` to the reason. `limit`: time limit per
// address.
int connect_once(const Addresses& addresses, std::chrono::milliseconds limit,
                 std::string& problem) {
  if (!addresses.first) problem = addresses.problem;
  for (const addrinfo* each = addresses.first.get(); each != nullptr; each = each->ai_next) {
    const int fd = ::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    if (fd < 0) continue;
    limit_calls(fd, limit);
    if (::connect(fd, each->ai_addr, each->ai_addrlen) == 0) return fd;
    problem = std::strerror(errno == EINPROGRESS ? ETIMEDOUT : errno);
    ::close(fd);
  }
  return -1;
}

Error unreachable(const std::string& host, int port, const std::string& problem) {
  return {ErrorKind::kPeer,
          cat("cannot reach node 0's launcher at ", host, ":", port, ": ", problem),
          "start am-run with --node-rank 0 on that machine, and check --rdzv"};
}

Error lost(const std::string& problem) {
  return {ErrorKind::kPeer, cat("the launchers' store is gone: ", problem)};
}

void send_all(int fd, const std::string& message, int flags = 0) {
  for (size_t sent = 0; sent < message.size();) {
    const ssize_t size =
        ::send(fd, message.data() + sent, message.size() - sent, flags | MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw lost(std::strerror(errno));
    sent += static_cast<size_t>(size);
  }
}

void receive_all(int fd, void* out, size_t size) {
  for (size_t received = 0; received < size;) {
    const ssize_t got = ::recv(fd, static_cast<char*>(out) + received, size - received, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) throw lost("its connection was closed");
    if (got < 0) throw lost(std::strerror(errno));
    received += static_cast<size_t>(got);
  }
}

// Returns whether the program at the other end is a store. Only a store answers a ping request with
// the request's number.
bool is_store(int fd) {
  constexpr uint32_t kNumber = 7;
  uint32_t answer = 0;
  std::string greeting;
  store::append(greeting, store::Query::kValidate);
  store::append(greeting, store::kMagic);
  store::append(greeting, store::Query::kPing);
  store::append(greeting, kNumber);
  try {
    send_all(fd, greeting);
    receive_all(fd, &answer, sizeof(answer));
  } catch (const Error&) {
    return false;
  }
  return answer == kNumber;
}

std::string setting(const std::string& key, const std::string& value) {
  std::string message;
  store::append(message, store::Query::kSet);
  store::append_text(message, store::kKeyPrefix + key);
  store::append_text(message, value);
  return message;
}

// Longest time to connect to an address, and to wait in is_store() for each part of the answer. A
// running store answers sooner.
constexpr auto kLongestGreeting = std::chrono::milliseconds(5000);
// Time without a connection after which connect_to_store() calls `waiting`. Also the longest time
// for which an attempt to connect waits for the name service.
constexpr auto kSilence = std::chrono::seconds(3);

}  // namespace

int connect_to_store(const std::string& host, int port, std::chrono::milliseconds timeout,
                     const Waiting& waiting, std::string& problem) {
  const auto begin = Clock::now();
  const auto end = begin + timeout;
  const auto left = [&] {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    return std::max(rest, std::chrono::milliseconds(1));
  };
  std::string announced;
  std::future<Addresses> answer;
  for (;;) {
    if (!answer.valid()) answer = ask_for_addresses(host, port);
    const bool answered = answer.wait_for(std::min<std::chrono::milliseconds>(left(), kSilence)) ==
                          std::future_status::ready;
    if (!answered) problem = "the name service does not answer";
    const int fd =
        answered ? connect_once(answer.get(), std::min(left(), kLongestGreeting), problem) : -1;
    if (fd >= 0) {
      limit_calls(fd, std::min(left(), kLongestGreeting));
      if (is_store(fd)) {
        limit_calls(fd, std::chrono::milliseconds(0));
        const int yes = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        return fd;
      }
      ::close(fd);
      problem = kNoGreeting;
    }
    if (Clock::now() >= end) return -1;
    if (waiting && Clock::now() - begin >= kSilence && problem != announced) {
      waiting(problem);
      announced = problem;
    }
    std::this_thread::sleep_for(std::min(left(), std::chrono::milliseconds(200)));
  }
}

RemoteStore::RemoteStore(const std::string& host, int port, std::chrono::milliseconds timeout,
                         const Waiting& waiting) {
  std::string problem;
  fd_ = connect_to_store(host, port, timeout, waiting, problem);
  if (fd_ < 0) throw unreachable(host, port, problem);
}

RemoteStore::~RemoteStore() { ::close(fd_); }

void RemoteStore::set(const std::string& key, const std::string& value) {
  send_all(fd_, setting(key, value));
}

void RemoteStore::set_with_next(const std::string& key, const std::string& value) {
  send_all(fd_, setting(key, value), MSG_MORE);
}

std::optional<std::string> RemoteStore::get(const std::string& key) {
  std::string message;
  store::append(message, store::Query::kCheck);
  store::append(message, uint64_t{1});
  store::append_text(message, store::kKeyPrefix + key);
  send(message);
  store::CheckAnswer there;
  receive(&there, sizeof(there));
  if (there != store::CheckAnswer::kReady) return std::nullopt;
  message.clear();
  store::append(message, store::Query::kGet);
  store::append_text(message, store::kKeyPrefix + key);
  send(message);
  uint64_t size = 0;
  receive(&size, sizeof(size));
  if (size > store::kLongestText) throw lost("its reply does not follow the store's protocol");
  std::string value(size, '\0');
  receive(value.data(), size);
  return value;
}

void RemoteStore::send(const std::string& message) const { send_all(fd_, message); }

void RemoteStore::receive(void* out, size_t size) const { receive_all(fd_, out, size); }

}  // namespace am::launch
