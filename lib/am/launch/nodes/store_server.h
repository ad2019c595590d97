// The store for the rendezvous of a job's ranks, served by the launcher: c10d's TCPStore protocol,
// implemented without libtorch, because loading libtorch would delay the start of a launcher.
//
//   StoreServer server(0, BindScope::kThisMachine);   // ranks connect to server.port()
//   server.get("/worker/attempt_0/watch/3");   // the state that rank 3 published
//
// Each connection uses a file descriptor of this process (open_files.h). If no descriptor is free,
// the server reports this, and new clients wait until one becomes free.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace am::launch {

// The machines from which clients can connect to a store. There is no password: each client can
// change all keys.
enum class BindScope { kThisMachine, kNetwork };

// Counters of the work of a server.
struct StoreLoad {
  int64_t connections = 0;  // number of connections that are open now
  int64_t requests = 0;
  int64_t bytes_sent = 0;
  double processor_seconds = 0.0;  // CPU time of the serving thread
};

// Callback that receives a message for the user; runs on the serving thread.
using StoreTrouble = std::function<void(const std::string& message)>;

// Serves a store from a background thread until destroyed.
class StoreServer {
 public:
  // If `port` is 0, the kernel chooses a free port. `trouble` is called each time the server runs
  // out of descriptors or memory for new clients. Throws Error(kPeer), which names the port, if the
  // server cannot listen on the port, for example because another process uses it.
  StoreServer(int port, BindScope reach, StoreTrouble trouble = nullptr);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  ~StoreServer();

  int port() const { return port_; }
  StoreLoad load() const;

  // Return and set a key's value. Both functions add kKeyPrefix to `key`, as c10d's clients do.
  // get() does not wait for a missing key, but returns nothing.
  std::optional<std::string> get(const std::string& key) const;
  void set(const std::string& key, const std::string& value);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
  int port_ = 0;
};

}  // namespace am::launch
