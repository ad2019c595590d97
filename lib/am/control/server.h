// Server side (the job): a thread that serves all attached clients, and a queue of their requests,
// which the training thread empties between two steps.
//
//   Server server(place.take_socket(), options);
//   server.start();                                   // its thread calls the options from now on
//   if (server.is_wanted()) ...                       // an atomic read
//   while (auto request = server.take(0ms)) server.reply(request->client, request->id, answer);
//
// Untrusted input costs the job only work on the server's thread and bounded memory: invalid frames
// and incomplete handshakes close the connection; a client that sends requests faster than they are
// answered is not read further; a client that does not read its output loses events, then its
// connection. The training thread shares a lock with the server's thread that is never held during
// reading, writing or waiting.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/control/token.h"

namespace am::control {

struct ServerLimits {
  size_t half_open = 8;  // connections without a completed handshake; the oldest is dropped
  size_t clients = 64;
  size_t queued = 16;                     // waiting requests per client
  size_t output_bytes = size_t{8} << 20;  // waiting output per client
  std::chrono::milliseconds handshake = std::chrono::seconds(2);
  std::chrono::milliseconds stalled = std::chrono::seconds(30);  // output is full and not read
};

// An attached client.
struct ClientInfo {
  uint64_t number = 0;
  pid_t pid = 0;
  uid_t uid = 0;
  std::string from;  // over TCP: its address; pid and uid are then unknown
  Json hello;
};

struct Request {
  uint64_t client = 0;
  int64_t id = 0;
  Json body;
};

struct ServerOptions {
  ServerLimits limits;
  // Decides which users of this machine may attach; by default this user and root.
  std::function<bool(uid_t)> admits;
  // A listening TCP socket, owned by the server; -1: none. Clients on it must prove that they know
  // `token`.
  int tcp_socket = -1;
  std::optional<Token> token;
  // Returns the first message to a client. The three callbacks run on the server's thread and must
  // not block.
  std::function<Json(const ClientInfo&)> welcome;
  // Handles a request that need not wait for a step boundary, and returns true; false leaves the
  // request to take(). May be empty.
  std::function<bool(const ClientInfo&, const Request&)> at_once;
  std::function<void(uint64_t client)> gone;
};

class Server {
 public:
  // `socket` must be listening; the server owns it. Throws Error(kRuntime).
  Server(int socket, ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Closes all connections.
  ~Server();

  // Starts serving: the callbacks may be called before this returns.
  void start();

  // Whether a request is waiting.
  bool is_wanted() const noexcept;
  // Returns the next request; waits up to `patience` for one. Thread-safe.
  std::optional<Request> take(std::chrono::milliseconds patience);
  // Removes a waiting request; returns false if it is no longer waiting.
  bool withdraw(uint64_t client, int64_t id);

  // Queue a message without blocking. Thread-safe. Ignored if the client has disconnected.
  void reply(uint64_t client, int64_t id, const Json& reply);
  void event(uint64_t client, const Json& event);
  void event_to_all(const Json& event);

  std::optional<ClientInfo> client(uint64_t number) const;
  std::vector<ClientInfo> clients() const;

  // Sends a last event to all clients, for at most `patience`, and disconnects them.
  void end(const Json& last_event, std::chrono::milliseconds patience);

 private:
  struct Shared;
  class Listener;

  void close_sockets();

  std::unique_ptr<Shared> shared_;
  int socket_;  // -1: owned by the listener
  std::unique_ptr<Listener> listener_;
};

}  // namespace am::control
