// Decompresses the pages of a Parquet file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "am/formats/parquet/metadata.h"

namespace am::formats::parquet {

// Uninitialised memory for one decompressed page. resize() ends the validity of earlier spans.
class PageBuffer {
 public:
  std::span<std::byte> resize(size_t size) {
    if (size > capacity_) {
      bytes_.reset();  // frees the old memory before the new is allocated
      bytes_ = std::make_unique_for_overwrite<std::byte[]>(size);
      capacity_ = size;
    }
    return {bytes_.get(), size};
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t capacity_ = 0;
};

// Decompresses `stored` to exactly `size` bytes. Returns a view of `buffer`, or `stored` itself if
// the codec is kUncompressed. Throws Error(kFormat) if the bytes are damaged, if the codec is not
// supported, or if a compressed page has a `size` over 1 GiB. Allocates no memory for a `size` that
// `stored` cannot decompress to.
Bytes unpack(Codec codec, Bytes stored, int64_t size, PageBuffer& buffer);

// Throws Error(kFormat) if the CRC-32 of the bytes differs from `checksum`.
void require_checksum(Bytes bytes, uint32_t checksum);

}  // namespace am::formats::parquet
