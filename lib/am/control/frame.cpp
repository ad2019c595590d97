#include "am/control/frame.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::control {

namespace {

constexpr size_t kLengthBytes = 4;
// Largest piece of a reply's JSON text in one frame, in bytes. The limit is below half of the
// largest frame, because escaping can double the length of a piece, and a frame has other fields
// too.
constexpr size_t kPieceBytes = kLargestFromJob / 2 - 1024;

size_t length_at(std::string_view bytes) {
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return length;
}

// Returns the JSON as ASCII text, because ASCII can be split at any byte.
std::string ascii_text(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

std::string to_frame(std::string_view text) {
  AM_ASSERT(text.size() <= UINT32_MAX, "a frame's length has four bytes");
  std::string frame;
  frame.reserve(kLengthBytes + text.size());
  for (size_t i = 0; i < kLengthBytes; ++i) {
    frame.push_back(static_cast<char>((text.size() >> (8 * i)) & 0xff));
  }
  frame.append(text);
  return frame;
}

FrameReader::FrameReader(size_t largest, Begins begins)
    : largest_(largest), begun_(begins == Begins::kAtOnce) {}

bool FrameReader::length_is_sensible() const {
  const std::string_view left = std::string_view(buffer_).substr(at_);
  return left.size() < kLengthBytes || length_at(left) <= largest_;
}

bool FrameReader::add(std::string_view bytes) {
  if (broken_) return false;
  buffer_.append(bytes);
  if (!begun_) {
    const size_t seen = std::min(buffer_.size(), kMagic.size());
    if (buffer_.compare(0, seen, kMagic.substr(0, seen)) != 0) {
      broken_ = true;
      return false;
    }
    if (seen < kMagic.size()) return true;
    begun_ = true;
    at_ = kMagic.size();
  }
  broken_ = !length_is_sensible();
  return !broken_;
}

std::optional<std::string> FrameReader::next() {
  if (broken_ || !begun_) return std::nullopt;
  const std::string_view left = std::string_view(buffer_).substr(at_);
  if (left.size() < kLengthBytes) return std::nullopt;
  const size_t length = length_at(left);
  if (length > largest_) {
    broken_ = true;
    return std::nullopt;
  }
  if (left.size() < kLengthBytes + length) return std::nullopt;
  std::string text(left.substr(kLengthBytes, length));
  at_ += kLengthBytes + length;
  if (at_ == buffer_.size()) {
    std::string().swap(buffer_);  // also frees the memory of a long frame
    at_ = 0;
  } else if (at_ > buffer_.size() / 2) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  return text;
}

std::vector<std::string> reply_frames(int64_t id, const Json& reply, size_t largest) {
  std::string text = ascii_text(reply);
  if (text.size() > largest) {
    text = ascii_text(
        {{"error",
          {{"kind", static_cast<int>(ErrorKind::kUsage)},
           {"message", cat("the answer has ", text.size(),
                           " bytes; the limit for a job's answer is ", largest)},
           {"hint", "ask for less, for example a part of a tensor: `print NAME[0:4, :8]`"}}}});
  }
  std::vector<std::string> frames;
  if (text.size() <= kPieceBytes) {
    frames.push_back(
        to_frame(cat("{\"id\":", id, ",\"part\":0,\"last\":true,\"reply\":", text, "}")));
    return frames;
  }
  for (size_t at = 0; at < text.size(); at += kPieceBytes) {
    const bool last = at + kPieceBytes >= text.size();
    const Json part = {{"id", id},
                       {"part", frames.size()},
                       {"last", last},
                       {"piece", text.substr(at, kPieceBytes)}};
    frames.push_back(to_frame(ascii_text(part)));
  }
  return frames;
}

std::optional<Json> ReplyReader::add(const Json& message) {
  const auto broken = [](std::string_view what) {
    return Error(ErrorKind::kFormat, cat("the job sent a malformed answer: ", what));
  };
  const auto part = message.find("part");
  const auto last = message.find("last");
  if (part == message.end() || !part->is_number_integer() || last == message.end() ||
      !last->is_boolean()) {
    throw broken("a frame has no valid \"part\" and \"last\"");
  }
  if (part->get<int64_t>() != next_part_) throw broken("a frame is missing");
  ++next_part_;
  if (const auto reply = message.find("reply"); reply != message.end()) {
    next_part_ = 0;
    return *reply;
  }
  const auto piece = message.find("piece");
  if (piece == message.end() || !piece->is_string()) throw broken("a frame has no text");
  text_ += piece->get_ref<const std::string&>();
  if (text_.size() > largest_) throw broken(cat("it has more than ", largest_, " bytes"));
  if (!last->get<bool>()) return std::nullopt;
  next_part_ = 0;
  auto reply = parse_message(std::exchange(text_, {}));
  if (!reply) throw broken("its frames do not form valid JSON");
  return reply;
}

Error not_a_job() {
  return {ErrorKind::kFormat, "the server at this address is not a job of am-run",
          "name the run folder of the job, or the tcp:// address that the job has logged"};
}

std::optional<Json> parse_message(std::string_view text) {
  Diagnostics found;
  auto json = parse_json(text, "message", found);
  if (!json || !json->is_object()) return std::nullopt;
  return json;
}

std::string text_in(const Json& message, const char* name, const std::string& otherwise) {
  const auto found = message.find(name);
  return found != message.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

}  // namespace am::control
