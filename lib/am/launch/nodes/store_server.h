// The store in which the ranks of a job find each other, served by the launcher: c10d's TCPStore
// protocol without libtorch, so that a launcher need not load it. Decision 12.
//
//   StoreServer server(0, Reach::kThisMachine);   // its port goes to the ranks
//   server.get("/worker/attempt_0/join/0/watch/3");   // what rank 3 published
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace am::launch {

// Who can connect to a store. There is no password: whoever connects can change everything.
enum class Reach { kThisMachine, kNetwork };

// Serves from a thread of its own until this object ends.
class StoreServer {
 public:
  // `port` 0: a free one. Throws Error(kPeer) that names the port when it is in use.
  StoreServer(int port, Reach reach);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  ~StoreServer();

  int port() const { return port_; }

  // The keys as clients name them. Nothing, at once, where there is no such key.
  std::optional<std::string> get(const std::string& key) const;
  void set(const std::string& key, const std::string& value);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
  int port_ = 0;
};

}  // namespace am::launch
