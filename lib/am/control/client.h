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
  // Connects to the job's Unix socket, or over TCP if the address has no Unix socket; over TCP,
  // both ends then prove that they know the token. Throws Error(kRuntime) if no job answers within
  // `patience`, if the job refuses, or if the peer does not know the token; Error(kFormat) if the
  // peer's messages are not those of a job; and the errors of Token::read(). receive() throws if a
  // reply that arrives in several frames has more than `largest_reply` bytes.
  Client(const JobAddress& address, Json hello, std::chrono::milliseconds patience,
         size_t largest_reply = kLargestReply);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // Returns the job's first message after authentication, which describes the session.
  const Json& welcome() const { return welcome_; }

  // Sends a request and returns its id. Thread-safe. Throws ConnectionLost, and Error(kUsage) for a
  // request of more than kLargestToJob bytes.
  int64_t send(Json request);
  // Returns the next event or complete reply; returns nothing if none arrives within `patience` or
  // a signal interrupts the wait. Must be called from one thread only. Throws ConnectionLost, and
  // Error(kFormat) for an invalid message.
  std::optional<Json> receive(std::chrono::milliseconds patience);

  // Returns a descriptor for poll(): it is readable when data from the job has arrived.
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
  // Reassembles a reply from its frames, which arrive consecutively, without frames of other
  // replies in between.
  ReplyReader reply_;
  int64_t replied_ = 0;  // id of the reply that is partly received; 0: none
};

}  // namespace am::control
