// The board of the launchers of several machines, on the store that node 0's launcher serves.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "am/launch/nodes/board.h"
#include "am/launch/nodes/store_server.h"

namespace am::launch {

// Node 0's own, in its process.
class ServedBoard : public Board {
 public:
  explicit ServedBoard(std::shared_ptr<StoreServer> server) : server_(std::move(server)) {}

  void set(const std::string& key, const std::string& value) override { server_->set(key, value); }
  std::optional<std::string> get(const std::string& key) override { return server_->get(key); }

 private:
  std::shared_ptr<StoreServer> server_;
};

// The other nodes': a connection. A call waits as long as whoever serves the store does not answer:
// launchers ask through a BackgroundBoard.
class RemoteBoard : public Board {
 public:
  // Throws Error(kPeer) that names the address when nobody serves a store there within `timeout`.
  RemoteBoard(const std::string& host, int port, std::chrono::milliseconds timeout);
  ~RemoteBoard() override;

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;

 private:
  void send(const std::string& message) const;
  void receive(void* out, size_t size) const;

  int fd_ = -1;
};

}  // namespace am::launch
