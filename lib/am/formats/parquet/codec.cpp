#include "am/formats/parquet/codec.h"

#include <zlib.h>
#include <zstd.h>

#include "am/formats/parquet/snappy.h"

namespace am::formats::parquet {

namespace {

constexpr int64_t kLargestPage = int64_t{1} << 30;

// Returns an upper limit of the ratio of decompressed to compressed size.
int64_t most_expansion(Codec codec) {
  switch (codec) {
    case Codec::kSnappy:
      return 22;  // a copy of 64 bytes takes 3 bytes
    case Codec::kGzip:
      return 1032;  // a copy of 258 bytes takes 2 bits
    default:
      return int64_t{1} << 15;  // a block that repeats one byte 128 Ki times takes 4 bytes
  }
}

void unpack_gzip(Bytes packed, std::span<std::byte> out) {
  constexpr int kGzipWindow = 15 + 16;
  z_stream stream = {};
  AM_ASSERT(inflateInit2(&stream, kGzipWindow) == Z_OK, "zlib has no memory");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  int status = Z_OK;
  do {
    status = inflate(&stream, Z_FINISH);  // a page may consist of several gzip members
  } while (status == Z_STREAM_END && stream.avail_in > 0 && stream.avail_out > 0 &&
           inflateReset(&stream) == Z_OK);
  const bool whole = stream.avail_out == 0;
  inflateEnd(&stream);
  if (status != Z_STREAM_END || !whole) fail_damaged("the page's gzip data are damaged");
}

void unpack_zstd(Bytes packed, std::span<std::byte> out) {
  const size_t size = ZSTD_decompress(out.data(), out.size(), packed.data(), packed.size());
  if (ZSTD_isError(size) != 0) {
    fail_damaged(cat("the page's Zstandard data are damaged: ", ZSTD_getErrorName(size)));
  }
  if (size != out.size()) fail_damaged("the page's Zstandard data end early");
}

}  // namespace

Bytes unpack(Codec codec, Bytes stored, int64_t size, PageBuffer& buffer) {
  const auto stored_size = static_cast<int64_t>(stored.size());
  if (codec == Codec::kUncompressed) {
    if (stored_size != size) fail_damaged("the sizes in the page header contradict each other");
    return stored;
  }
  if (codec != Codec::kSnappy && codec != Codec::kGzip && codec != Codec::kZstd) {
    fail_unsupported(cat("the column is compressed by ", name_of(codec),
                         ", which is not supported (supported: Snappy, gzip, Zstandard)"));
  }
  if (size == 0) return {};
  if (size > kLargestPage)
    fail_unsupported(cat("the page would have ", size, " bytes, over 1 GiB"));
  if (size / most_expansion(codec) > stored_size) {
    fail_damaged(cat("the page's ", stored_size, " bytes cannot decompress to ", size));
  }
  const auto out = buffer.resize(static_cast<size_t>(size));
  if (codec == Codec::kSnappy) unpack_snappy(stored, out);
  if (codec == Codec::kGzip) unpack_gzip(stored, out);
  if (codec == Codec::kZstd) unpack_zstd(stored, out);
  return out;
}

void require_checksum(Bytes bytes, uint32_t checksum) {
  const auto found = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (found != checksum) fail_damaged("the page's checksum does not match its bytes");
}

}  // namespace am::formats::parquet
