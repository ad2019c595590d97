// The two stores that launchers of several machines share: node 0 serves it, the others reach it.
#pragma once

#include <chrono>
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

// The other nodes': a connection. A call waits as long as whoever serves the store does not answer:
// launchers ask through a BackgroundStore.
class RemoteStore : public KeyValueStore {
 public:
  // Throws Error(kPeer) that names the address when nobody serves a store there within `timeout`.
  RemoteStore(const std::string& host, int port, std::chrono::milliseconds timeout);
  ~RemoteStore() override;

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;

 private:
  void send(const std::string& message) const;
  void receive(void* out, size_t size) const;

  int fd_ = -1;
};

}  // namespace am::launch
