#include "am/data/tokenizer/base64.h"

#include <array>
#include <cstdint>

namespace am::data {

std::optional<std::string> base64_bytes(std::string_view text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static const std::array<int8_t, 256> value_of = [] {
    std::array<int8_t, 256> made;
    made.fill(-1);
    for (size_t i = 0; i < kDigits.size(); ++i) {
      made[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
    }
    return made;
  }();
  for (int padding = 0; padding < 2 && !text.empty() && text.back() == '='; ++padding) {
    text.remove_suffix(1);
  }
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int8_t value = value_of[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  if (text.size() % 4 == 1) return std::nullopt;
  return bytes;
}

}  // namespace am::data
