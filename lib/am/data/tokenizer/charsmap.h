// SentencePiece's precompiled_charsmap, which replaces characters and sequences of characters.
//
//   const Charsmap map(map_bytes);
//   map.for_each_prefix("\u2460x", [](size_t length, std::string_view replacement) {});    // 3, "1"
//
// A map consists of the size in bytes of a double-array trie (uint32, little-endian), the trie's
// units (uint32 each, in the layout of the library Darts-clone), and the replacement texts, each of
// which ends with '\0'. The trie maps each key to the offset of its replacement among the texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace am::data {

class Charsmap {
 public:
  // Reads a map. Throws Error(kFormat) with a message that begins with "the character map" if the
  // bytes are not a map.
  explicit Charsmap(std::string_view bytes);

  // Calls `found(length, replacement)` for each key with which `text` begins, the shortest first.
  template <typename Found>
  void for_each_prefix(std::string_view text, Found&& found) const {
    uint32_t node = offset(unit(0));
    for (size_t at = 0; at < text.size() && text[at] != '\0'; ++at) {
      const auto byte = static_cast<unsigned char>(text[at]);
      node ^= byte;
      const uint32_t next = unit(node);
      if ((next & 0x800000FFU) != byte) return;
      node ^= offset(next);
      if ((next >> 8 & 1U) != 0) found(at + 1, text_at(unit(node) & 0x7FFFFFFFU));
    }
  }

 private:
  // Returns the trie's unit at index `at`. For an index outside the trie, returns a unit that
  // matches no byte, so a search ends there.
  uint32_t unit(uint32_t at) const { return at < units_.size() ? units_[at] : UINT32_MAX; }
  static uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200U) >> 6); }
  std::string_view text_at(uint32_t at) const {
    // Returns an empty text for an offset into the middle of a character, which only an invalid map
    // contains.
    const bool begins =
        at < texts_.size() && (static_cast<unsigned char>(texts_[at]) & 0xC0) != 0x80;
    return begins ? std::string_view(texts_.data() + at) : std::string_view();
  }

  std::vector<uint32_t> units_;
  std::string texts_;  // ends with '\0'
};

}  // namespace am::data
