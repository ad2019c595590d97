#include "am/inspect/messages.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::inspect {
namespace {

constexpr uint64_t kLongest = uint64_t{1} << 32;

bool send_bytes(int socket, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t count = ::send(socket, bytes, size, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EPIPE || errno == ECONNRESET)) return false;
    if (count < 0) {
      throw Error(ErrorKind::kRuntime,
                  cat("cannot write to a rank's socket: ", std::strerror(errno)));
    }
    bytes += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

// Receives exactly `size` bytes. Returns false if the peer has closed its end before that.
bool receive_bytes(int socket, char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t count = ::recv(socket, bytes, size, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return false;
    if (count < 0) {
      throw Error(ErrorKind::kRuntime, cat("cannot read a rank's socket: ", std::strerror(errno)));
    }
    bytes += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

bool send_message(int socket, const Json& message) {
  const std::string text = dump_json(message, -1);
  const uint64_t length = text.size();
  char header[sizeof(length)];
  std::memcpy(header, &length, sizeof(length));
  return send_bytes(socket, header, sizeof(header)) && send_bytes(socket, text.data(), text.size());
}

std::optional<Json> receive_message(int socket) {
  char header[sizeof(uint64_t)];
  if (!receive_bytes(socket, header, sizeof(header))) return std::nullopt;
  uint64_t length = 0;
  std::memcpy(&length, header, sizeof(length));
  if (length > kLongest)
    throw Error(ErrorKind::kRuntime, "a rank sent a message of invalid length");
  std::string text(length, '\0');
  if (!receive_bytes(socket, text.data(), text.size())) return std::nullopt;
  Diagnostics found;
  auto json = parse_json(text, "message", found);
  if (!json) throw Error(ErrorKind::kRuntime, "a rank sent a message that is not valid JSON");
  return json;
}

namespace {

Json packed(const RowTable& table) {
  Json columns = Json::array();
  for (const RowColumn& each : table.columns) {
    columns.push_back({each.key, each.title, static_cast<int>(each.kind)});
  }
  return {{"columns", columns}, {"shown", table.shown}, {"digits", table.digits}};
}

RowTable unpacked(const Json& json) {
  RowTable table;
  for (const Json& each : json.value("columns", Json::array())) {
    table.columns.push_back({each.at(0).get<std::string>(), each.at(1).get<std::string>(),
                             static_cast<RowKind>(each.at(2).get<int>())});
  }
  table.shown = json.value("shown", Json());
  table.digits = json.value("digits", table.digits);
  return table;
}

}  // namespace

Json pack(const Outcome& outcome) {
  Json message = {{"input", outcome.input}, {"command", outcome.command}};
  if (!outcome.error) {
    message["json"] = outcome.result.json;
    message["text"] = outcome.result.text;
    message["svg"] = outcome.result.svg;
    message["table"] = packed(outcome.result.table);
    message["quit"] = outcome.result.quit;
    message["failed"] = outcome.result.failed;
  } else {
    message["error"] = {{"kind", static_cast<int>(outcome.error->kind)},
                        {"message", outcome.error->message},
                        {"hint", outcome.error->hint}};
  }
  return message;
}

Outcome unpack(const Json& message) {
  Outcome outcome;
  outcome.input = message.value("input", "");
  outcome.command = message.value("command", "");
  if (message.contains("error")) {
    const Json& error = message.at("error");
    outcome.error = {kind_of(error.at("kind").get<int>()), error.at("message").get<std::string>(),
                     error.at("hint").get<std::string>()};
    return outcome;
  }
  outcome.result.json = message.value("json", Json::object());
  outcome.result.text = message.value("text", "");
  outcome.result.svg = message.value("svg", "");
  outcome.result.table = unpacked(message.value("table", Json::object()));
  outcome.result.quit = message.value("quit", false);
  outcome.result.failed = message.value("failed", false);
  return outcome;
}

}  // namespace am::inspect
