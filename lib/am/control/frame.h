// Wire protocol between am-repl and a job that it attaches to: frames of JSON.
//
// A client begins with kMagic, so that a browser, a port scanner or a shell fails at its first
// byte. After that, both sides send frames: a length of four bytes, little-endian, and a JSON text
// of this length.
//
//   FrameReader reader(kLargestToJob, FrameReader::Begins::kWithMagic);
//   if (!reader.add(bytes)) close(fd);                // the bytes can never become a frame
//   while (auto text = reader.next()) handle(*text);
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/error.h"
#include "am/base/json.h"

namespace am::control {

inline constexpr int64_t kProtocol = 1;
inline constexpr std::string_view kMagic{"AMRPC\0\0\1", 8};
inline constexpr size_t kLargestToJob = size_t{1} << 20;
inline constexpr size_t kLargestFromJob = size_t{16} << 20;
// Largest number of bytes of a reply, all parts together.
inline constexpr size_t kLargestReply = size_t{256} << 20;

// Returns `text`, of at most 2^32 - 1 bytes, as a frame.
std::string to_frame(std::string_view text);

// Extracts frames from a stream that arrives in pieces. Memory grows with received bytes, not with
// announced lengths.
class FrameReader {
 public:
  enum class Begins { kWithMagic, kAtOnce };
  explicit FrameReader(size_t largest, Begins begins = Begins::kAtOnce);

  // Adds received bytes. Returns false if the bytes can never become a valid frame.
  bool add(std::string_view bytes);
  // Returns the text of the next complete frame; nothing if none is complete.
  std::optional<std::string> next();
  // Whether the magic was received. Always true if no magic is expected.
  bool begun() const { return begun_; }

 private:
  bool length_is_sensible() const;

  size_t largest_;
  bool begun_;
  bool broken_ = false;
  std::string buffer_;
  size_t at_ = 0;  // index in buffer_ of the data that next() has not returned yet
};

// Splits a reply into frames. The frame of a reply that fits into one is {"id", "part", "last",
// "reply"}. The frames of a longer reply are {"id", "part", "last", "piece"}, each with a piece of
// its text. A reply of more than `largest` bytes is replaced by an error.
std::vector<std::string> reply_frames(int64_t id, const Json& reply,
                                      size_t largest = kLargestReply);

// Joins the parts of a reply.
class ReplyReader {
 public:
  explicit ReplyReader(size_t largest = kLargestReply) : largest_(largest) {}

  // Adds a part. Returns the complete reply after its last part. Throws Error(kFormat) for an
  // invalid part, and as soon as the parts have more than `largest` bytes.
  std::optional<Json> add(const Json& message);

 private:
  size_t largest_;
  std::string text_;
  int64_t next_part_ = 0;
};

// Returns the error for an invalid message.
Error not_a_job();

// Parses an untrusted message; returns nothing if it is not a JSON object.
std::optional<Json> parse_message(std::string_view text);
// Returns the text in the field `name`; `otherwise` if the field is missing or not a text.
std::string text_in(const Json& message, const char* name, const std::string& otherwise = {});

}  // namespace am::control
