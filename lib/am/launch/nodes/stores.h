// Access to the store that launchers of several machines share: node 0 serves it, the other nodes
// connect to node 0.
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

// Node 0's access to the store, which its own process serves.
class ServedStore : public KeyValueStore {
 public:
  explicit ServedStore(std::shared_ptr<StoreServer> server) : server_(std::move(server)) {}

  void set(const std::string& key, const std::string& value) override { server_->set(key, value); }
  std::optional<std::string> get(const std::string& key) override { return server_->get(key); }

 private:
  std::shared_ptr<StoreServer> server_;
};

// Error message for an open port at which no store answers.
inline constexpr const char* kNoGreeting =
    "the port is open, but no launcher answers: another program has the port, or the launcher has "
    "no free file descriptor";

// Callback that receives the reason why there is no connection to the store yet: first after 3 s,
// then whenever the reason changes.
using Waiting = std::function<void(const std::string& reason)>;

// Returns a socket connected to a store that answers at host:port; the caller closes it. Retries
// until `timeout`, then returns -1, with the reason in `problem`, for example that the name is
// unknown, the port is closed, or the program that listens is not a store.
int connect_to_store(const std::string& host, int port, std::chrono::milliseconds timeout,
                     const Waiting& waiting, std::string& problem);

// The other nodes' access to the store, through a connection to node 0. A call may block, without a
// time limit, while the server does not respond, so launchers use a BackgroundStore.
class RemoteStore : public KeyValueStore {
 public:
  // Connects to the store. Throws Error(kPeer) that names the address if no store answers there
  // within `timeout`.
  RemoteStore(const std::string& host, int port, std::chrono::milliseconds timeout,
              const Waiting& waiting = nullptr);
  ~RemoteStore() override;

  void set(const std::string& key, const std::string& value) override;
  // Sends with MSG_MORE: the kernel holds the message back for the next one, at most 200 ms.
  void set_with_next(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;

 private:
  void send(const std::string& message) const;
  void receive(void* out, size_t size) const;

  int fd_ = -1;
};

}  // namespace am::launch
