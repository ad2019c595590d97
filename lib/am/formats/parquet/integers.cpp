#include "am/formats/parquet/integers.h"

#include <algorithm>
#include <cstring>

namespace am::formats::parquet {

void RunReader::start_run() {
  const uint64_t head = bytes_.varint();
  if (head > UINT32_MAX) fail_damaged("a run is too long");
  packed_ = (head & 1) != 0;
  left_ = head >> 1;
  if (!packed_) {
    repeated_ = 0;
    const Bytes number = bytes_.take(static_cast<uint64_t>(width_ + 7) / 8);
    std::memcpy(&repeated_, number.data(), number.size());
    return;
  }
  // A bit-packed run stores its length in groups of 8 numbers. Some writers omit the bytes of the
  // last group that would be padding only.
  constexpr uint64_t kNumbersInGroup = 8;
  const auto width = static_cast<uint64_t>(width_);
  const uint64_t size = std::min<uint64_t>(left_ * width, bytes_.rest().size());
  run_ = bytes_.take(size);
  left_ = std::min(left_ * kNumbersInGroup, size * 8 / width);
  bit_ = 0;
}

DeltaReader::DeltaReader(Bytes bytes) : bytes_(bytes) {
  const uint64_t block_size = bytes_.varint();
  groups_in_block_ = bytes_.varint();
  left_ = bytes_.varint();
  value_ = static_cast<uint64_t>(bytes_.zigzag());
  constexpr uint64_t kLargestBlock = uint64_t{1} << 31;
  constexpr uint64_t kNumbersInGroup = 8;
  if (block_size > kLargestBlock || groups_in_block_ == 0 || block_size == 0 ||
      block_size % groups_in_block_ != 0 || block_size / groups_in_block_ % kNumbersInGroup != 0) {
    fail_damaged("the blocks of differences have an illegal size");
  }
  group_size_ = block_size / groups_in_block_;
}

void DeltaReader::start_block() {
  least_ = static_cast<uint64_t>(bytes_.zigzag());
  widths_ = bytes_.take(groups_in_block_);
  groups_left_ = groups_in_block_;
}

void DeltaReader::start_group() {
  if (groups_left_ == 0) start_block();
  width_ = std::to_integer<int>(widths_[static_cast<size_t>(groups_in_block_ - groups_left_)]);
  if (width_ > 64) fail_damaged("a difference has more than 64 bits");
  --groups_left_;
  left_in_group_ = std::min(group_size_, left_);
  // The last group is padded to group_size_ numbers, but some writers omit the padding.
  const auto width = static_cast<uint64_t>(width_);
  const uint64_t needed = (left_in_group_ * width + 7) / 8;
  group_ = bytes_.take(
      std::max(needed, std::min<uint64_t>(group_size_ / 8 * width, bytes_.rest().size())));
  bit_ = 0;
}

int64_t DeltaReader::next() {
  if (left_ == 0) fail_damaged("there are fewer values than the page header says");
  if (first_) {
    first_ = false;
  } else {
    if (left_in_group_ == 0) start_group();
    --left_in_group_;
    value_ += least_ + bits_at(group_, bit_, width_);
    bit_ += static_cast<uint64_t>(width_);
  }
  --left_;
  return static_cast<int64_t>(value_);
}

Bytes DeltaReader::skip_all() {
  if (first_ && left_ > 0) next();
  while (left_ > 0) {
    if (left_in_group_ == 0) start_group();
    left_ -= left_in_group_;
    left_in_group_ = 0;
  }
  return bytes_.rest();
}

}  // namespace am::formats::parquet
