// The two stores that launchers of several machines share: node 0 serves it, the others reach it.
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

// Node 0's own, in its process.
class ServedStore : public KeyValueStore {
 public:
  explicit ServedStore(std::shared_ptr<StoreServer> server) : server_(std::move(server)) {}

  void set(const std::string& key, const std::string& value) override { server_->set(key, value); }
  std::optional<std::string> get(const std::string& key) override { return server_->get(key); }

 private:
  std::shared_ptr<StoreServer> server_;
};

// Called with the reason once a connection has been waited for 3 s, and whenever the reason
// changes.
using Waiting = std::function<void(const std::string& reason)>;

// A connection to a store that answers at host:port: its socket, which the caller closes. Tries
// again until `timeout`; then -1, and `problem` says why: the name is not known, the name service
// does not answer, nobody listens, or the program that listens is no store.
int connect_to_store(const std::string& host, int port, std::chrono::milliseconds timeout,
                     const Waiting& waiting, std::string& problem);

// The other nodes': a connection. A call waits as long as whoever serves the store does not answer:
// launchers ask through a BackgroundStore.
class RemoteStore : public KeyValueStore {
 public:
  // Throws Error(kPeer) that names the address when nobody serves a store there within `timeout`.
  RemoteStore(const std::string& host, int port, std::chrono::milliseconds timeout,
              const Waiting& waiting = nullptr);
  ~RemoteStore() override;

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;

 private:
  void send(const std::string& message) const;
  void receive(void* out, size_t size) const;

  int fd_ = -1;
};

}  // namespace am::launch
