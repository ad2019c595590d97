#include "am/control/server.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/control/frame.h"
#include "am/control/listener.h"
#include "am/control/server_shared.h"

namespace am::control {

void Server::Shared::wake() const {
  const uint64_t one = 1;
  if (::write(wake_fd, &one, sizeof one) < 0) {
    // The error is ignored: it means that the eventfd's counter is full, so the thread is about to
    // wake anyway.
  }
}

Server::Server(int socket, ServerOptions options)
    : shared_(std::make_unique<Shared>()), socket_(socket) {
  shared_->options = std::move(options);
  if (!shared_->options.admits) {
    shared_->options.admits = [](uid_t uid) { return uid == ::geteuid() || uid == 0; };
  }
  if (!shared_->options.welcome) {
    shared_->options.welcome = [](const ClientInfo&) { return Json{{"event", "welcome"}}; };
  }
  shared_->wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (shared_->wake_fd < 0) {
    close_sockets();
    throw Error(ErrorKind::kRuntime, cat("cannot create an eventfd: ", std::strerror(errno)));
  }
}

void Server::close_sockets() {
  for (const int socket : {socket_, shared_->options.tcp_socket}) {
    if (socket >= 0) ::close(socket);
  }
}

void Server::start() {
  if (socket_ >= 0) listener_ = std::make_unique<Listener>(std::exchange(socket_, -1), *shared_);
}

Server::~Server() {
  stop();
  ::close(shared_->wake_fd);
}

void Server::stop() {
  if (shared_->ending.exchange(true)) return;
  const bool started = listener_ != nullptr;
  listener_.reset();
  if (!started) close_sockets();
}

bool Server::is_wanted() const noexcept {
  return shared_->waiting.load(std::memory_order_relaxed) > 0;
}

std::optional<Request> Server::take(std::chrono::milliseconds patience) {
  std::optional<Request> request;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->came.wait_for(lock, patience, [&] { return !shared_->queue.empty(); });
    if (shared_->queue.empty()) return std::nullopt;
    request = std::move(shared_->queue.front());
    shared_->queue.pop_front();
    --shared_->waiting;
    const auto outlet = shared_->outlets.find(request->client);
    if (outlet != shared_->outlets.end()) --outlet->second.queued;
  }
  shared_->wake();  // the queue has room, so the thread may read more requests
  return request;
}

bool Server::withdraw(uint64_t client, int64_t id) {
  const std::lock_guard lock(shared_->mutex);
  const auto found = std::find_if(
      shared_->queue.begin(), shared_->queue.end(),
      [&](const Request& request) { return request.client == client && request.id == id; });
  if (found == shared_->queue.end()) return false;
  shared_->queue.erase(found);
  --shared_->waiting;
  const auto outlet = shared_->outlets.find(client);
  if (outlet != shared_->outlets.end()) --outlet->second.queued;
  return true;
}

void Server::reply(uint64_t client, int64_t id, const Json& reply) {
  std::vector<std::string> frames = reply_frames(id, reply);
  {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->outlets.find(client);
    if (found == shared_->outlets.end()) return;
    Outlet& outlet = found->second;
    if (outlet.bytes > shared_->options.limits.output_bytes) {
      outlet.overrun = true;
    } else {
      for (std::string& frame : frames) {
        outlet.bytes += frame.size();
        outlet.frames.push_back(std::move(frame));
      }
    }
  }
  shared_->wake();
}

void Server::event(uint64_t client, const Json& event) {
  std::string frame = to_frame(dump_json(event, -1));
  {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->outlets.find(client);
    if (found == shared_->outlets.end()) return;
    Outlet& outlet = found->second;
    if (outlet.bytes + frame.size() > shared_->options.limits.output_bytes) {
      ++outlet.dropped;
      return;
    }
    outlet.bytes += frame.size();
    outlet.frames.push_back(std::move(frame));
  }
  shared_->wake();
}

void Server::event_to_all(const Json& json) {
  for (const ClientInfo& one : clients()) event(one.number, json);
}

std::optional<ClientInfo> Server::client(uint64_t number) const {
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->outlets.find(number);
  if (found == shared_->outlets.end()) return std::nullopt;
  return found->second.who;
}

std::vector<ClientInfo> Server::clients() const {
  std::vector<ClientInfo> all;
  const std::lock_guard lock(shared_->mutex);
  for (const auto& [number, outlet] : shared_->outlets) all.push_back(outlet.who);
  return all;
}

void Server::end(const Json& last_event, std::chrono::milliseconds patience) {
  event_to_all(last_event);
  std::unique_lock lock(shared_->mutex);
  shared_->sent.wait_for(lock, patience, [&] {
    return std::all_of(shared_->outlets.begin(), shared_->outlets.end(),
                       [](const auto& each) { return each.second.bytes == 0; });
  });
}

}  // namespace am::control
