#include "server.h"

#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "completion.h"
#include "findings.h"
#include "fixes.h"
#include "hover.h"
#include "messages.h"

namespace am_plan::lsp {
namespace {

// Error codes of JSON-RPC and of the Language Server Protocol.
constexpr int kParseError = -32700;
constexpr int kInvalidRequest = -32600;
constexpr int kMethodNotFound = -32601;
constexpr int kInvalidParams = -32602;
constexpr int kInternalError = -32603;
constexpr int kNotInitialized = -32002;

const std::string& uri_in(const am::Json& params) {
  return params.at("textDocument").at("uri").get_ref<const std::string&>();
}

// Whether the client asks for quick fixes, alone or among other code actions.
bool wants_quick_fixes(const am::Json& params) {
  const am::Json& context = params.at("context");
  if (!context.contains("only")) return true;
  for (const am::Json& kind : context["only"]) {
    if (kind == "quickfix" || kind == "") return true;
  }
  return false;
}

}  // namespace

const std::map<std::string, Server::Request, std::less<>>& Server::requests() {
  static const std::map<std::string, Request, std::less<>> all = {
      {"initialize", &Server::initialize},
      {"shutdown", &Server::shutdown},
      {"textDocument/hover", &Server::hover},
      {"textDocument/completion", &Server::completion},
      {"textDocument/codeAction", &Server::code_action},
  };
  return all;
}

const std::map<std::string, Server::Notification, std::less<>>& Server::notifications() {
  static const std::map<std::string, Notification, std::less<>> all = {
      {"exit", &Server::exit},
      {"textDocument/didOpen", &Server::did_open},
      {"textDocument/didChange", &Server::did_change},
      {"textDocument/didSave", &Server::did_save},
      {"textDocument/didClose", &Server::did_close},
  };
  return all;
}

void Server::receive(std::string_view text) {
  am::Diagnostics found;
  const auto message = am::parse_json(text, "message", found);
  if (!message) return answer_error(nullptr, kParseError, found.items().front().message);
  if (!message->is_object()) {
    return answer_error(nullptr, kInvalidRequest, "the message is not an object");
  }
  const am::Json id = message->value("id", am::Json());
  if (!message->contains("method")) return;  // a response, but the server sends no requests
  const am::Json& method = (*message)["method"];
  if (!method.is_string()) return answer_error(id, kInvalidRequest, "the method is not a string");
  const am::Json params = message->value("params", am::Json::object());
  if (message->contains("id")) {
    answer(method.get<std::string>(), params, id);
  } else {
    notice(method.get<std::string>(), params);
  }
}

void Server::answer(const std::string& method, const am::Json& params, const am::Json& id) {
  const auto request = requests().find(method);
  if (request == requests().end()) {
    return answer_error(id, kMethodNotFound, am::cat("unknown method ", method));
  }
  if (shut_down_) return answer_error(id, kInvalidRequest, "the server has been shut down");
  if (!initialized_ && method != "initialize") {
    return answer_error(id, kNotInitialized, "the request initialize has not been received");
  }
  try {
    am::Json result = (this->*request->second)(params);
    send_({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}});
  } catch (const am::JsonError& error) {
    answer_error(id, kInvalidParams, am::json_reason(error));
  } catch (const am::Error& error) {
    const bool usage = error.kind() == am::ErrorKind::kUsage;
    answer_error(id, usage ? kInvalidParams : kInternalError, error.what());
  }
}

void Server::answer_error(const am::Json& id, int code, const std::string& problem) {
  send_({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", problem}}}});
}

// Handles a notification. Ignores unknown and invalid notifications, because the protocol has no
// answer to a notification.
void Server::notice(const std::string& method, const am::Json& params) {
  const auto notification = notifications().find(method);
  if (notification == notifications().end()) return;
  if (!initialized_ && method != "exit") return;
  try {
    (this->*notification->second)(params);
  } catch (const am::JsonError&) {
  } catch (const am::Error&) {
  }
}

am::Json Server::initialize(const am::Json&) {
  initialized_ = true;
  return capabilities();
}

am::Json Server::shutdown(const am::Json&) {
  shut_down_ = true;
  return nullptr;
}

void Server::exit(const am::Json&) { ended_ = true; }

void Server::did_open(const am::Json& params) {
  check(Document(uri_in(params), params.at("textDocument").at("text").get<std::string>()));
}

void Server::did_change(const am::Json& params) {
  const std::string uri = opened(params).document.uri();
  const am::Json& changes = params.at("contentChanges");
  if (!changes.empty()) check(Document(uri, changes.back().at("text").get<std::string>()));
}

// Checks the document again, because files that the plan names may have changed since the last
// check.
void Server::did_save(const am::Json& params) { check(Document(opened(params).document)); }

void Server::did_close(const am::Json& params) {
  const auto closed = open_.extract(opened(params).document.uri());
  publish(closed.mapped().document, {});
}

am::Json Server::hover(const am::Json& params) {
  const auto& [document, found] = opened(params);
  const Position position = document.nearest(read_position(params.at("position")));
  const auto hover = hover_at(document, found, position);
  return hover ? to_json(*hover) : am::Json(nullptr);
}

am::Json Server::completion(const am::Json& params) {
  const Document& document = opened(params).document;
  const Position position = document.nearest(read_position(params.at("position")));
  am::Json items = am::Json::array();
  for (const Completion& item : completions_at(document, position)) items.push_back(to_json(item));
  return items;
}

am::Json Server::code_action(const am::Json& params) {
  const auto& [document, found] = opened(params);
  am::Json actions = am::Json::array();
  if (!wants_quick_fixes(params)) return actions;
  const am::Json& range = params.at("range");
  const int first = read_position(range.at("start")).line;
  const int last = read_position(range.at("end")).line;
  for (const Fix& fix : fixes_in(document, found, first, last)) {
    actions.push_back(to_json(document, fix));
  }
  return actions;
}

void Server::check(Document document) {
  am::Diagnostics found = findings(document);
  publish(document, found);
  const std::string uri = document.uri();
  open_.insert_or_assign(uri, OpenDocument{std::move(document), std::move(found)});
}

void Server::publish(const Document& document, const am::Diagnostics& found) {
  send_({{"jsonrpc", "2.0"},
         {"method", "textDocument/publishDiagnostics"},
         {"params", published(document, found)}});
}

const Server::OpenDocument& Server::opened(const am::Json& params) const {
  const auto found = open_.find(uri_in(params));
  if (found != open_.end()) return found->second;
  throw am::Error(am::ErrorKind::kUsage, am::cat(uri_in(params), " is not open"));
}

}  // namespace am_plan::lsp
