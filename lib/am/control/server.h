// Server of a job: a thread that serves all attached clients, and a queue of their requests, which
// the training thread empties between two steps.
//
//   Server server(place.take_socket(), options);
//   server.start();                                   // its thread may now call the callbacks
//   if (server.is_wanted()) ...                       // an atomic read
//   while (auto request = server.take(0ms)) server.reply(request->client, request->id, answer);
//
// Untrusted input costs the job only work on the server's thread and bounded memory. Invalid frames
// and incomplete handshakes close the connection. The server stops reading from a client whose
// requests arrive faster than they are answered. A client that does not read its output loses
// events, and later its connection. The training thread and the server's thread share one lock,
// which is never held during socket operations or waiting.
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
  // Largest number of connections without a completed handshake. Beyond it, the oldest is closed.
  size_t half_open = 32;
  size_t clients = 64;  // largest number of attached clients
  size_t queued = 16;   // largest number of waiting requests per client
  // Limit of a client's waiting output, in bytes. An event that would exceed it is dropped. A reply
  // may exceed it; a further reply made while the limit is exceeded disconnects the client.
  size_t output_bytes = size_t{8} << 20;
  std::chrono::milliseconds handshake = std::chrono::seconds(2);
  // Time after which a client is disconnected if it has not read its waiting output.
  std::chrono::milliseconds stalled = std::chrono::seconds(30);
};

// An attached client.
struct ClientInfo {
  uint64_t number = 0;
  pid_t pid = 0;
  uid_t uid = 0;
  std::string from;  // address of a TCP client (pid and uid are then unknown); otherwise empty
  Json hello;
};

struct Request {
  uint64_t client = 0;
  int64_t id = 0;
  Json body;
};

struct ServerOptions {
  ServerLimits limits;
  // Returns whether a user of this machine may attach. If the function is empty, only root and the
  // user of this process may attach.
  std::function<bool(uid_t)> admits;
  // A listening TCP socket, which the server then owns; -1 if there is none. Clients that connect
  // to it must prove that they know `token`.
  int tcp_socket = -1;
  std::optional<Token> token;
  // Returns the first message to an attached client. `admits`, `welcome`, `at_once` and `gone` are
  // called on the server's thread and must not block.
  std::function<Json(const ClientInfo&)> welcome;
  // Handles a request that need not wait for the end of a step, and returns true. Returns false for
  // any other request, which take() then returns. May be empty.
  std::function<bool(const ClientInfo&, const Request&)> at_once;
  // Called after an attached client was disconnected, except by stop(). May be empty.
  std::function<void(uint64_t client)> gone;
};

class Server {
 public:
  // `socket` must be listening; the server then owns it. Throws Error(kRuntime).
  Server(int socket, ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Closes all connections.
  ~Server();

  // Starts the thread, which may call the callbacks before start() returns.
  void start();

  // Returns whether a request waits for take().
  bool is_wanted() const noexcept;
  // Returns the next request; nothing if none arrives within `patience`. Thread-safe.
  std::optional<Request> take(std::chrono::milliseconds patience);
  // Removes a request from the queue. Returns false if the request is no longer in the queue.
  bool withdraw(uint64_t client, int64_t id);

  // Queue a message to one client or to all clients, without blocking. Thread-safe. A message to a
  // client that has disconnected is ignored.
  void reply(uint64_t client, int64_t id, const Json& reply);
  void event(uint64_t client, const Json& event);
  void event_to_all(const Json& event);

  std::optional<ClientInfo> client(uint64_t number) const;
  std::vector<ClientInfo> clients() const;

  // Sends a last event to all clients, and waits up to `patience` until all output is sent.
  void end(const Json& last_event, std::chrono::milliseconds patience);
  // Disconnects the clients and ends the listening thread. After stop() has returned, no function
  // of the options runs. The destructor calls stop().
  void stop();

 private:
  struct Shared;
  class Listener;

  void close_sockets();

  std::unique_ptr<Shared> shared_;
  int socket_;  // listening socket; -1 after it was passed to the listener
  std::unique_ptr<Listener> listener_;
};

}  // namespace am::control
