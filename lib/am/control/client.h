// Client side (am-repl): one connection to a job.
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

// The job closed the connection: it ended, or dropped this client.
class ConnectionLost : public Error {
 public:
  ConnectionLost();
};

class Client {
 public:
  // Connects over TCP if the address has no socket; both ends then prove that they know the token.
  // Throws Error(kRuntime) if no job answers in time, the job refuses, or the peer is not the job;
  // also what Token::read throws. receive() refuses a reply of more than `largest_reply` bytes.
  Client(const JobAddress& address, Json hello, std::chrono::milliseconds patience,
         size_t largest_reply = kLargestReply);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // The job's first message.
  const Json& welcome() const { return welcome_; }

  // Sends a request and returns its id. Thread-safe. Throws ConnectionLost.
  int64_t send(Json request);
  // Returns the next event or complete reply; nothing on timeout. Call from one thread only. Throws
  // ConnectionLost, and Error(kFormat) for an invalid message.
  std::optional<Json> receive(std::chrono::milliseconds patience);

  // Descriptor for poll(): readable when a message has arrived.
  int fd() const { return fd_; }

 private:
  Json expect(const JobAddress& address, std::chrono::milliseconds patience);
  void prove(const JobAddress& address, const std::string& nonce,
             std::chrono::milliseconds patience);
  void send_bytes(std::string_view bytes);
  std::optional<Json> whole_message();
  // Whether a request with this id was sent.
  bool was_sent(int64_t id);

  int fd_ = -1;
  Json welcome_;
  std::mutex sending_;
  int64_t last_id_ = 0;
  FrameReader reader_{kLargestFromJob};
  // The parts of a reply arrive consecutively, before those of another reply.
  ReplyReader reply_;
  int64_t replied_ = 0;  // id of a reply whose last part is missing; 0: none
};

}  // namespace am::control
