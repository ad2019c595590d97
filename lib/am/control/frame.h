// Wire protocol between am-repl and a running job: frames of JSON.
//
// A client first sends the eight bytes kMagic; the job thus rejects a browser, a port scanner or a
// shell at the first bytes. Then both sides send frames. A frame is a length in bytes (four bytes,
// little-endian), and a JSON text of this length.
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
// Largest size of the JSON text in one frame, in bytes, for each direction.
inline constexpr size_t kLargestToJob = size_t{1} << 20;
inline constexpr size_t kLargestFromJob = size_t{16} << 20;
// Largest size of a reply in bytes, summed over its frames.
inline constexpr size_t kLargestReply = size_t{256} << 20;

// Returns `text`, of at most 2^32 - 1 bytes, as a frame.
std::string to_frame(std::string_view text);

// Extracts frames from a stream of bytes. Memory use is bounded by the bytes received, not by the
// lengths that frames announce.
class FrameReader {
 public:
  enum class Begins { kWithMagic, kAtOnce };
  explicit FrameReader(size_t largest, Begins begins = Begins::kAtOnce);

  // Adds received bytes. Returns false if the bytes can never become a valid frame.
  bool add(std::string_view bytes);
  // Returns the text of the next frame; nothing if this frame is not complete yet or is invalid.
  std::optional<std::string> next();
  // Returns whether kMagic was received. Always true for Begins::kAtOnce, a stream without kMagic.
  bool begun() const { return begun_; }

 private:
  bool length_is_sensible() const;

  size_t largest_;
  bool begun_;
  bool broken_ = false;
  std::string buffer_;
  size_t at_ = 0;  // index in buffer_ of the data that next() has not returned yet
};

// Encodes a reply as one or several frames. If one frame suffices, its message is {"id", "part",
// "last", "reply"}. Otherwise each frame contains a message {"id", "part", "last", "piece"}, where
// "part" is the number of the frame, from 0, and "piece" is a substring of the reply's JSON text. A
// reply of more than `largest` bytes of JSON text is replaced by an error.
std::vector<std::string> reply_frames(int64_t id, const Json& reply,
                                      size_t largest = kLargestReply);

// Reassembles replies from the messages in the frames of reply_frames().
class ReplyReader {
 public:
  explicit ReplyReader(size_t largest = kLargestReply) : largest_(largest) {}

  // Adds the message of the next frame. Returns the reply if this is its last frame, otherwise
  // nothing. Throws Error(kFormat) for an invalid message, and as soon as the pieces have more than
  // `largest` bytes.
  std::optional<Json> add(const Json& message);

 private:
  size_t largest_;
  std::string text_;
  int64_t next_part_ = 0;
};

// Returns an Error(kFormat) that the peer is not a job of am-run.
Error not_a_job();

// Parses an untrusted message; returns nothing if it is not a JSON object.
std::optional<Json> parse_message(std::string_view text);
// Returns the string in the field `name`, or `otherwise` if the field is missing or is not a
// string.
std::string text_in(const Json& message, const char* name, const std::string& otherwise = {});

}  // namespace am::control
