// The wire protocol between the server of c10d's TCPStore and its clients
// (torch/csrc/distributed/c10d/TCPStoreBackend.hpp). Numbers are in the host's byte order. The
// length of a text precedes the text as a uint64.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace am::launch::store {

// Number that a client sends in its first request, kValidate.
inline constexpr uint32_t kMagic = 0x3C85F7CE;

// The first byte of a request.
enum class Query : uint8_t {
  kValidate,
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kCountKeys,
  kDeleteKey,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
};

enum class CheckAnswer : uint8_t { kReady, kNotReady };
enum class WaitAnswer : uint8_t { kReady, kCancelled };

// Largest length of a text in bytes, and largest number of keys in a request, as in c10d's server.
// These limits bound the memory that an unknown client can occupy.
inline constexpr uint64_t kLongestText = 8 << 20;
inline constexpr uint64_t kMostKeys = 128 << 10;

// Prefix that c10d's clients add to every key.
inline constexpr const char* kKeyPrefix = "/";

template <typename Number>
void append(std::string& message, Number number) {
  message.append(reinterpret_cast<const char*>(&number), sizeof(number));
}
inline void append_text(std::string& message, std::string_view text) {
  append(message, uint64_t{text.size()});
  message.append(text);
}

// Parses a message from its beginning. number() and text() return nothing if `bytes` ends before
// the number or text does.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }

  template <typename Number>
  std::optional<Number> number() {
    if (bytes_.size() - position_ < sizeof(Number)) return std::nullopt;
    Number value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(value));
    position_ += sizeof(value);
    return value;
  }
  // Returns the next text. Returns nothing if the text is incomplete or longer than kLongestText;
  // in the second case, too_long() returns true from then on.
  std::optional<std::string> text() {
    const auto size = number<uint64_t>();
    if (!size) return std::nullopt;
    if (*size > kLongestText) too_long_ = true;
    if (too_long_ || bytes_.size() - position_ < *size) return std::nullopt;
    position_ += *size;
    return std::string(bytes_.substr(position_ - *size, *size));
  }
  bool too_long() const { return too_long_; }

 private:
  std::string_view bytes_;
  size_t position_ = 0;
  bool too_long_ = false;
};

}  // namespace am::launch::store
