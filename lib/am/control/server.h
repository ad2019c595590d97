// Server of a job, to which clients (am-repl) attach. The server's thread serves all clients and
// puts their requests in a queue. The training thread handles the queued requests between two
// steps.
//
//   Server server(place.take_socket(), options);
//   server.start();                                   // its thread may now use `options`
//   if (server.is_wanted()) ...                       // an atomic read
//   while (auto request = server.take(0ms)) server.reply(request->client, request->id, answer);
//
// Untrusted input costs the job only time on the server's thread, and a bounded amount of memory.
// The server closes a connection with an invalid frame or an incomplete handshake. The server stops
// reading from a client whose requests arrive faster than they are answered. A client that does not
// read its output first loses events, and is later disconnected. The training thread and the
// server's thread share one lock; no thread holds the lock during socket operations or while it
// waits.
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
  // Largest number of connections without a completed handshake, for Unix and TCP connections
  // separately. A further connection closes the oldest of them.
  size_t half_open = 32;
  size_t clients = 64;  // largest number of attached clients
  size_t queued = 16;   // largest number of waiting requests per client
  // Limit of a client's waiting output, in bytes. An event that would exceed the limit is dropped.
  // One reply may exceed the limit; the next reply then disconnects the client if its output still
  // exceeds the limit.
  size_t output_bytes = size_t{8} << 20;
  std::chrono::milliseconds handshake = std::chrono::seconds(2);
  // Time after which a client is disconnected if it reads none of its waiting output.
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
  // A listening TCP socket, which the server then owns; -1 if there is none. TCP clients must prove
  // that they know `token`.
  int tcp_socket = -1;
  std::optional<Token> token;
  // Returns the first message to a newly attached client. The server's thread calls `admits`,
  // `welcome`, `at_once` and `gone`; they must not block.
  std::function<Json(const ClientInfo&)> welcome;
  // Handles a request that need not wait for the end of a step, and returns true. Returns false for
  // any other request; take() then returns this request. May be empty.
  std::function<bool(const ClientInfo&, const Request&)> at_once;
  // Called after an attached client was disconnected, except by stop(). May be empty.
  std::function<void(uint64_t client)> gone;
};

class Server {
 public:
  // `socket` must be a listening socket, which the server then owns. Throws Error(kRuntime) if no
  // eventfd can be created.
  Server(int socket, ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Closes all connections.
  ~Server();

  // Starts the server's thread, which may call the functions of the options before start() returns.
  void start();

  // Returns whether a request waits for take().
  bool is_wanted() const noexcept;
  // Removes the next request from the queue and returns it; returns nothing if no request arrives
  // within `patience`. Thread-safe.
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

  // Sends a last event to all clients, and waits until all output is sent, but at most `patience`.
  void end(const Json& last_event, std::chrono::milliseconds patience);
  // Disconnects the clients and ends the server's thread. After stop() has returned, no function of
  // the options runs. The destructor calls stop().
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
