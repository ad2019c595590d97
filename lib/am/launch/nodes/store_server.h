// The store through which a job's ranks find each other, served by a launcher. The server
// implements the protocol of c10d's TCPStore without libtorch, because loading libtorch would delay
// the start of a launcher.
//
//   StoreServer server(0, BindScope::kThisMachine);   // ranks connect to server.port()
//   server.get("/worker/attempt_0/watch/3");   // the state that rank 3 published
//
// Each connection uses a file descriptor of this process (open_files.h). If no descriptor is free,
// the server calls StoreTrouble, and new clients wait until a descriptor becomes free.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace am::launch {

// The machines from which clients can connect to a store. The store has no password: each client
// can change all keys.
enum class BindScope { kThisMachine, kNetwork };

// Counters of a server's work since its start.
struct StoreLoad {
  int64_t connections = 0;  // number of connections that are open now
  int64_t requests = 0;
  int64_t bytes_sent = 0;
  double processor_seconds = 0.0;  // CPU time of the serving thread
};

// Callback for a message to the user. The server calls it on the serving thread.
using StoreTrouble = std::function<void(const std::string& message)>;

// Serves a store from a background thread until destroyed.
class StoreServer {
 public:
  // Starts the server. If `port` is 0, the kernel chooses a free port. The server calls `trouble`
  // whenever it begins to lack descriptors or memory for new clients. Throws Error(kPeer) if the
  // server cannot listen on the port, for example because another process uses the port.
  StoreServer(int port, BindScope reach, StoreTrouble trouble = nullptr);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  ~StoreServer();

  int port() const { return port_; }
  StoreLoad load() const;

  // Return and set a key's value. Both functions add kKeyPrefix (store_protocol.h) to `key`, as
  // c10d's clients do. get() returns nothing for a missing key, without waiting.
  std::optional<std::string> get(const std::string& key) const;
  void set(const std::string& key, const std::string& value);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
  int port_ = 0;
};

}  // namespace am::launch
