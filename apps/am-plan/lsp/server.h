// A session of the Language Server Protocol, from initialize to exit.
//
//   Server server(send);
//   while (!server.ended()) server.receive(text_of_next_message);
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "am/base/diagnostic.h"
#include "am/base/json.h"
#include "document.h"

namespace am_plan::lsp {

class Server {
 public:
  using Send = std::function<void(const am::Json& message)>;

  // `send` is called with each answer and notification.
  explicit Server(Send send) : send_(std::move(send)) {}

  // Handles the JSON text of one message. Answers an invalid message and a failed request with an
  // error. Ignores unknown and failed notifications.
  void receive(std::string_view text);

  // Whether the notification exit has been received.
  bool ended() const { return ended_; }
  // Whether the request shutdown has been received.
  bool shut_down() const { return shut_down_; }

 private:
  struct OpenDocument {
    Document document;
    am::Diagnostics found;
  };
  using Request = am::Json (Server::*)(const am::Json& params);
  using Notification = void (Server::*)(const am::Json& params);
  static const std::map<std::string, Request, std::less<>>& requests();
  static const std::map<std::string, Notification, std::less<>>& notifications();

  void answer(const std::string& method, const am::Json& params, const am::Json& id);
  void answer_error(const am::Json& id, int code, const std::string& problem);
  void notice(const std::string& method, const am::Json& params);

  am::Json initialize(const am::Json& params);
  am::Json shutdown(const am::Json& params);
  am::Json hover(const am::Json& params);
  am::Json completion(const am::Json& params);
  am::Json code_action(const am::Json& params);
  void exit(const am::Json& params);
  void did_open(const am::Json& params);
  void did_change(const am::Json& params);
  void did_save(const am::Json& params);
  void did_close(const am::Json& params);

  // Checks a new or changed document, publishes its diagnostics, and stores the document and the
  // diagnostics in open_.
  void check(Document document);
  void publish(const Document& document, const am::Diagnostics& found);
  // Returns the document that the parameters name. Throws Error(kUsage) if it is not open.
  const OpenDocument& opened(const am::Json& params) const;

  Send send_;
  std::map<std::string, OpenDocument, std::less<>> open_;
  bool initialized_ = false;
  bool shut_down_ = false;
  bool ended_ = false;
};

}  // namespace am_plan::lsp
