// What travels between am-repl and a job that it attaches to: frames of JSON.
//
// A client begins with kMagic, so that a browser, a port scanner or a shell fails at its first
// byte. Then both sides send frames: four bytes of length, little-endian, and so many bytes of
// JSON.
//
//   FrameReader reader(kLargestToJob, FrameReader::Begins::kWithMagic);
//   if (!reader.add(bytes)) close(fd);                // this can never become a frame
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
// Of a reply in all its parts.
inline constexpr size_t kLargestReply = size_t{256} << 20;

// `text` has at most 2^32 - 1 bytes.
std::string to_frame(std::string_view text);

// Frames out of a stream that comes in pieces. It holds what has arrived, never what was announced.
class FrameReader {
 public:
  enum class Begins { kWithMagic, kAtOnce };
  explicit FrameReader(size_t largest, Begins begins = Begins::kAtOnce);

  // False: what came can never become a frame, now or later.
  bool add(std::string_view bytes);
  // The next whole frame's text.
  std::optional<std::string> next();
  // Whether the magic has been seen, where one is expected.
  bool begun() const { return begun_; }

 private:
  bool length_is_sensible() const;

  size_t largest_;
  bool begun_;
  bool broken_ = false;
  std::string buffer_;
  size_t at_ = 0;  // of what next() has not given yet
};

// A reply as frames: {"id", "part", "last", "reply"}, and where it is too long for one, pieces of
// its text: {"id", "part", "last", "piece"}. What is longer than kLargestReply is an error instead.
std::vector<std::string> reply_frames(int64_t id, const Json& reply);

// Puts the parts together again.
class ReplyReader {
 public:
  // The whole reply once its last part has come. Throws Error(kFormat) for what is no part.
  std::optional<Json> add(const Json& message);

 private:
  std::string text_;
  int64_t next_part_ = 0;
};

// For a message that no job sends.
Error not_a_job();

// Of a message that is JSON by a stranger: nothing where it is none, or no object.
std::optional<Json> parse_message(std::string_view text);
// A text in it; `otherwise` where there is none, or something else has its name.
std::string text_in(const Json& message, const char* name, const std::string& otherwise = {});

}  // namespace am::control
