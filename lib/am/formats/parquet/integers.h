// Reads packed integers one by one: repeated or bit-packed numbers (levels, and indices into a
// dictionary), and differences. Counts in the file may be wrong; they do not determine how much
// memory is allocated.
#pragma once

#include <cstdint>

#include "am/formats/parquet/byte_reader.h"

namespace am::formats::parquet {

// Reads numbers of the encoding RLE: runs of one repeated number, and runs of bit-packed numbers.
class RunReader {
 public:
  RunReader() = default;
  // `width`: bits per number, 0 to 32. Numbers of 0 bits are 0 and need no bytes.
  RunReader(Bytes bytes, int width) : bytes_(bytes), width_(width) {}

  // Returns the next number. Throws Error(kFormat) if there is none.
  uint32_t next() {
    if (width_ == 0) return 0;
    while (left_ == 0) start_run();
    --left_;
    if (!packed_) return repeated_;
    const uint64_t bit = bit_;
    bit_ += static_cast<uint64_t>(width_);
    return static_cast<uint32_t>(bits_at(run_, bit, width_));
  }

 private:
  void start_run();

  ByteReader bytes_;
  int width_ = 0;
  uint64_t left_ = 0;  // numbers that are left in the run
  bool packed_ = false;
  uint32_t repeated_ = 0;
  Bytes run_;  // a run of packed numbers
  uint64_t bit_ = 0;
};

// Reads numbers of the encoding DELTA_BINARY_PACKED: the first number, and blocks of differences.
class DeltaReader {
 public:
  DeltaReader() = default;
  // Throws Error(kFormat) if the header is damaged.
  explicit DeltaReader(Bytes bytes);

  // Returns the next number. Sums of differences wrap around modulo 2^64. Throws Error(kFormat) if
  // there is no next number.
  int64_t next();
  // Skips all remaining numbers, and returns the bytes behind them.
  Bytes skip_all();

 private:
  void start_block();
  void start_group();

  ByteReader bytes_;
  uint64_t groups_in_block_ = 0;
  uint64_t group_size_ = 0;
  uint64_t left_ = 0;  // numbers that are left
  uint64_t value_ = 0;
  bool first_ = true;
  // State of the current block.
  uint64_t least_ = 0;
  Bytes widths_;
  uint64_t groups_left_ = 0;
  // State of the current group (Parquet: miniblock), whose differences all have width_ bits.
  uint64_t left_in_group_ = 0;
  int width_ = 0;
  Bytes group_;
  uint64_t bit_ = 0;
};

}  // namespace am::formats::parquet
