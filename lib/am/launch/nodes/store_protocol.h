// What c10d's TCPStore and its clients say to each other (torch/csrc/distributed/c10d/
// TCPStoreBackend.hpp): numbers in the host's order, texts with their length before them.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace am::launch::store {

inline constexpr uint32_t kMagic = 0x3C85F7CE;

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

// As c10d's own server limits them: a stranger who connects must not take all memory.
inline constexpr uint64_t kLongestText = 8 << 20;
inline constexpr uint64_t kMostKeys = 128 << 10;

// c10d's clients put this before every key.
inline constexpr const char* kKeyPrefix = "/";

template <typename Number>
void append(std::string& message, Number number) {
  message.append(reinterpret_cast<const char*>(&number), sizeof(number));
}
inline void append_text(std::string& message, std::string_view text) {
  append(message, uint64_t{text.size()});
  message.append(text);
}

// Reads a message from its beginning; every member returns nothing where the bytes end too early.
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
  // False in too_long() only where the text may still come.
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
