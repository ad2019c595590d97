// Connection of a client (am-repl) to a job.
//
//   Client client(job.address, {{"name", "am-repl"}}, 2s);
//   const int64_t id = client.send({{"input", "ls"}});
//   while (auto message = client.receive(100ms)) ...   // a reply {"id", "reply"}, or an event
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/control/frame.h"
#include "am/control/place.h"

namespace am::control {

// Thrown when the connection to the job is lost, for example because the job ended or has
// disconnected this client.
class ConnectionLost : public Error {
 public:
  ConnectionLost();
};

class Client {
 public:
  // Connects to the job's Unix socket, or over TCP if the address has no Unix socket. Over TCP,
  // both ends then prove that they know the token. `hello` describes this client to the job.
  // `patience` limits the wait for each message of the job and, over TCP, the wait for the
  // connection. Throws Error(kRuntime) if the connection fails or a wait times out, if the job
  // refuses the client, or if the peer does not know the token; Error(kFormat) if the peer's
  // messages are not those of a job; and the errors of Token::read(). receive() throws
  // Error(kFormat) if a reply in several frames has more than `largest_reply` bytes.
  Client(const JobAddress& address, Json hello, std::chrono::milliseconds patience,
         size_t largest_reply = kLargestReply);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // Returns the job's first message after authentication, which describes the job.
  const Json& welcome() const { return welcome_; }

  // Sends a request and returns its id. Thread-safe. Throws ConnectionLost, and Error(kUsage) for a
  // request of more than kLargestToJob bytes.
  int64_t send(Json request);
  // Returns the next event or the next complete reply. Returns nothing if no message is complete
  // within `patience`, or if a signal interrupts the wait. receive() must always be called from the
  // same thread. Throws ConnectionLost, and Error(kFormat) for an invalid message.
  std::optional<Json> receive(std::chrono::milliseconds patience);

  // Returns the connection's file descriptor, for poll(). The descriptor is readable when data from
  // the job has arrived.
  int fd() const { return fd_; }

 private:
  Json expect(const JobAddress& address, std::chrono::milliseconds patience);
  void prove(const JobAddress& address, const std::string& nonce,
             std::chrono::milliseconds patience);
  void send_bytes(std::string_view bytes);
  std::optional<Json> whole_message();
  // Returns whether a request with this id was sent.
  bool was_sent(int64_t id);

  int fd_ = -1;
  Json welcome_;
  std::mutex sending_;
  int64_t last_id_ = 0;
  FrameReader reader_{kLargestFromJob};
  // Reassembles a reply from its frames. Frames of other replies never arrive between them.
  ReplyReader reply_;
  int64_t replied_ = 0;  // id of the reply that is partly received; 0: none
};

}  // namespace am::control
