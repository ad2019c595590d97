#include "am/formats/parquet/snappy.h"

#include <cstdint>
#include <cstring>

namespace am::formats::parquet {

namespace {

// Output of the elements of a Snappy stream: literal bytes, and copies of earlier output.
class SnappyOutput {
 public:
  explicit SnappyOutput(std::span<std::byte> out) : out_(out) {}

  bool full() const { return at_ == out_.size(); }

  void literal(Bytes bytes) {
    require_space(bytes.size());
    if (!bytes.empty()) std::memcpy(out_.data() + at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }

  // Appends a copy of the `length` bytes that begin `offset` bytes before the end of the output.
  // The copy may overlap with its source.
  void copy(size_t offset, size_t length) {
    if (offset == 0 || offset > at_)
      fail_damaged("the Snappy data refer to bytes before the first");
    require_space(length);
    std::byte* to = out_.data() + at_;
    const std::byte* from = to - offset;
    at_ += length;
    constexpr size_t kWord = 8;
    if (offset >= kWord && out_.size() - at_ >= kWord) {  // the last word may exceed `length`
      for (size_t i = 0; i < length; i += kWord) std::memcpy(to + i, from + i, kWord);
      return;
    }
    for (size_t i = 0; i < length; ++i) to[i] = from[i];
  }

 private:
  void require_space(size_t size) const {
    if (size > out_.size() - at_) fail_damaged("the Snappy data are longer than they should be");
  }

  std::span<std::byte> out_;
  size_t at_ = 0;
};

// Returns a little-endian number of 1 to 4 bytes.
size_t number_of(Bytes bytes) {
  size_t number = 0;
  for (size_t i = 0; i < bytes.size(); ++i) number |= std::to_integer<size_t>(bytes[i]) << (8 * i);
  return number;
}

}  // namespace

void unpack_snappy(Bytes packed, std::span<std::byte> out) {
  ByteReader reader(packed);
  if (reader.varint() != out.size())
    fail_damaged("the Snappy data's length differs from the page's");
  SnappyOutput output(out);
  while (!reader.empty()) {
    const auto tag = reader.number<uint8_t>();
    const size_t high = tag >> 2;
    switch (tag & 3) {
      case 0: {  // a literal; the next 1 to 4 bytes store a length above 60
        constexpr size_t kLongest = 59;
        const size_t length = high <= kLongest ? high : number_of(reader.take(high - kLongest));
        output.literal(reader.take(length + 1));
        break;
      }
      case 1:
        output.copy(high >> 3 << 8 | reader.number<uint8_t>(), (high & 7) + 4);
        break;
      case 2:
        output.copy(reader.number<uint16_t>(), high + 1);
        break;
      default:
        output.copy(reader.number<uint32_t>(), high + 1);
    }
  }
  if (!output.full()) fail_damaged("the Snappy data end early");
}

}  // namespace am::formats::parquet
