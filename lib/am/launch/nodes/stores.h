// Access to the store that the launchers of several machines share. Node 0 serves the store, and
// the other nodes connect to node 0.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "am/launch/nodes/key_value_store.h"
#include "am/launch/nodes/store_server.h"

namespace am::launch {

// Node 0's access to the store, which the launcher's own process serves.
class ServedStore : public KeyValueStore {
 public:
  explicit ServedStore(std::shared_ptr<StoreServer> server) : server_(std::move(server)) {}

  void set(const std::string& key, const std::string& value) override { server_->set(key, value); }
  std::optional<std::string> get(const std::string& key) override { return server_->get(key); }

 private:
  std::shared_ptr<StoreServer> server_;
};

// Error message for a port that accepts connections, but at which no store answers.
inline constexpr const char* kNoGreeting =
    "the port is open, but no launcher answers: another program has the port, or the launcher has "
    "no free file descriptor";

// Callback for the reason why a connection to the store is not established yet. The first call is
// after 3 s; further calls follow whenever the reason changes.
using Waiting = std::function<void(const std::string& reason)>;

// Returns a socket that is connected to the store at host:port; the caller must close the socket.
// Retries until `timeout` has passed. Then returns -1 and sets `problem` to the reason, for example
// that the name is unknown, the port is closed, or the program that listens is not a store.
// `waiting` may be null.
int connect_to_store(const std::string& host, int port, std::chrono::milliseconds timeout,
                     const Waiting& waiting, std::string& problem);

// The other nodes' access to the store, through a connection to node 0. A call may block without a
// time limit while the server does not respond. Launchers therefore wrap a RemoteStore in a
// BackgroundStore.
class RemoteStore : public KeyValueStore {
 public:
  // Connects to the store at host:port. Throws Error(kPeer) with the address in its message if no
  // store answers within `timeout`.
  RemoteStore(const std::string& host, int port, std::chrono::milliseconds timeout,
              const Waiting& waiting = nullptr);
  ~RemoteStore() override;

  void set(const std::string& key, const std::string& value) override;
  // Sends with MSG_MORE: the kernel waits up to 200 ms for the next message and sends both
  // together.
  void set_with_next(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;

 private:
  void send(const std::string& message) const;
  void receive(void* out, size_t size) const;

  int fd_ = -1;
};

}  // namespace am::launch
