// am-repl's side: one connection to a job.
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

// The job closed the connection: it ended, or does not want this client any more.
class ConnectionLost : public Error {
 public:
  ConnectionLost();
};

class Client {
 public:
  // Over TCP where the address has no socket, with a proof that both ends know the token. Throws
  // Error(kRuntime) where nobody answers there in time, refuses, or is not the job; what
  // Token::read throws.
  Client(const JobAddress& address, Json hello, std::chrono::milliseconds patience);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // What the job said first.
  const Json& welcome() const { return welcome_; }

  // Sends a request under an id of its own. From any thread. Throws ConnectionLost.
  int64_t send(Json request);
  // The next event or whole reply; nothing when none came in time. From one thread. Throws
  // ConnectionLost, Error(kFormat) for what no job says.
  std::optional<Json> receive(std::chrono::milliseconds patience);

  // To poll: readable when something came.
  int fd() const { return fd_; }

 private:
  Json expect(const JobAddress& address, std::chrono::milliseconds patience);
  void prove(const JobAddress& address, const std::string& nonce,
             std::chrono::milliseconds patience);
  void send_bytes(std::string_view bytes);
  std::optional<Json> whole_message();
  // Whether a request has this id.
  bool was_sent(int64_t id);

  int fd_ = -1;
  Json welcome_;
  std::mutex sending_;
  int64_t last_id_ = 0;
  FrameReader reader_{kLargestFromJob};
  // Parts of one reply follow each other: another begins when its last has come.
  ReplyReader reply_;
  int64_t replied_ = 0;  // the id of a reply whose last part has not come; 0: none
};

}  // namespace am::control
