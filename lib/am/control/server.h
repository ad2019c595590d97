// The side of the job: one thread that talks to everybody who attaches, and a queue of what they
// want, which the training thread empties between two steps.
//
//   Server server(place.take_socket(), options);
//   server.start();                                   // from now on its thread calls the options
//   if (server.is_wanted()) ...                       // an atomic read
//   while (auto request = server.take(0ms)) server.reply(*request, answer);
//
// Whatever a stranger sends costs the job some work of this thread and bounded memory, and nothing
// else: bytes that are no frame close their connection, so does a handshake that does not end; a
// client that asks faster than it is answered is read no further, and one that does not read what
// it is told loses events, then its connection. The training thread shares a lock with this thread
// that is never held while either reads, writes or waits.
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
  size_t half_open = 8;  // connections that have not said hello; the oldest makes room
  size_t clients = 64;
  size_t queued = 16;                     // requests of one client that wait
  size_t output_bytes = size_t{8} << 20;  // of one client that wait
  std::chrono::milliseconds handshake = std::chrono::seconds(2);
  std::chrono::milliseconds stalled = std::chrono::seconds(30);  // without reading a full output
};

// Who attached.
struct ClientInfo {
  uint64_t number = 0;
  pid_t pid = 0;
  uid_t uid = 0;
  std::string from;  // over TCP: where it comes from; of the two before nothing is known
  Json hello;
};

struct Request {
  uint64_t client = 0;
  int64_t id = 0;
  Json body;
};

struct ServerOptions {
  ServerLimits limits;
  // Who may attach on this machine; by default this user and root.
  std::function<bool(uid_t)> admits;
  // A socket of TCP that listens, and is the server's from now on; -1: none. Whoever comes there
  // has to prove that it knows `token`.
  int tcp_socket = -1;
  std::optional<Token> token;
  // The first thing that a client is told. All three are called on the server's thread, and must
  // not wait for anything.
  std::function<Json(const ClientInfo&)> welcome;
  // True: it has seen to the request, which needs no step to end. May be empty.
  std::function<bool(const ClientInfo&, const Request&)> at_once;
  std::function<void(uint64_t client)> gone;
};

class Server {
 public:
  // `socket` listens, and is the server's from now on. Throws Error(kRuntime).
  Server(int socket, ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Closes what is open.
  ~Server();

  // Begins to serve: the options' functions may be called before this returns.
  void start();

  // Whether a request waits.
  bool is_wanted() const noexcept;
  // The next request; waits so long for one. From any thread.
  std::optional<Request> take(std::chrono::milliseconds patience);
  // Takes a request back that waits; false where it does not wait any more.
  bool withdraw(uint64_t client, int64_t id);

  // Both from any thread, and without waiting. To one that has gone: nothing happens.
  void reply(uint64_t client, int64_t id, const Json& reply);
  void event(uint64_t client, const Json& event);
  void event_to_all(const Json& event);

  std::optional<ClientInfo> client(uint64_t number) const;
  std::vector<ClientInfo> clients() const;

  // The last event of all: it is sent, for at most `patience`, and then everybody is left.
  void end(const Json& last_event, std::chrono::milliseconds patience);

 private:
  struct Shared;
  class Listener;

  void close_sockets();

  std::unique_ptr<Shared> shared_;
  int socket_;  // -1: the listener's
  std::unique_ptr<Listener> listener_;
};

}  // namespace am::control
