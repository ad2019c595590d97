#include "am/data/data_file.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/data/file_format.h"
#include "am/formats/parquet/table.h"

namespace am::data {

namespace fs = std::filesystem;

namespace {

constexpr size_t kBlockBytes = size_t{4} << 20;  // number of bytes to decompress at a time
constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr std::string_view kGzip("\x1f\x8b\x08", 3);
constexpr std::string_view kZstd("\x28\xb5\x2f\xfd", 4);

// Decompresses a file, piece by piece.
class Inflater {
 public:
  virtual ~Inflater() = default;
  // Appends the next decompressed bytes, up to `most`, to `out`. Appends nothing at the end of the
  // data.
  virtual void read(std::string& out, size_t most) = 0;
  virtual size_t consumed() const = 0;  // number of compressed bytes read so far
};

[[noreturn]] void fail_to_unpack(const fs::path& path, std::string_view reason) {
  throw Error(ErrorKind::kFormat, cat(path.string(), ": ", reason),
              "the file was damaged, or its writer had not finished; unpack it to see how much is "
              "readable");
}

class GzipInflater : public Inflater {
 public:
  GzipInflater(const fs::path& path, std::string_view bytes) : path_(path), bytes_(bytes) {
    constexpr int kGzipWindow = 15 + 16;
    AM_ASSERT(inflateInit2(&stream_, kGzipWindow) == Z_OK, "zlib has no memory");
  }
  GzipInflater(const GzipInflater&) = delete;
  GzipInflater& operator=(const GzipInflater&) = delete;
  ~GzipInflater() override { inflateEnd(&stream_); }

  void read(std::string& out, size_t most) override {
    const size_t before = out.size();
    out.resize(before + most);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream_.avail_out = static_cast<uInt>(most);
    while (stream_.avail_out > 0) {
      if (ended_) {  // another gzip member may follow, as after `cat a.gz b.gz`
        if (bytes_.find_first_not_of('\0', at_) == std::string_view::npos) {
          at_ = bytes_.size();  // zero padding, which gzip ignores too
          break;
        }
        inflateReset(&stream_);
        ended_ = false;
      }
      const size_t piece = std::min(bytes_.size() - at_, kPieceBytes);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes_.data() + at_));
      stream_.avail_in = static_cast<uInt>(piece);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      at_ += piece - stream_.avail_in;
      ended_ = status == Z_STREAM_END;
      if (status == Z_BUF_ERROR || (status == Z_OK && piece == 0))
        fail_to_unpack(path_, "the gzip file ends early");
      if (status != Z_OK && !ended_) fail_to_unpack(path_, "the gzip file is damaged");
    }
    out.resize(before + most - stream_.avail_out);
  }
  size_t consumed() const override { return at_; }

 private:
  fs::path path_;
  std::string_view bytes_;
  size_t at_ = 0;
  bool ended_ = false;
  z_stream stream_ = {};
};

class ZstdInflater : public Inflater {
 public:
  ZstdInflater(const fs::path& path, std::string_view bytes)
      : path_(path), in_{bytes.data(), bytes.size(), 0}, stream_(ZSTD_createDStream()) {
    AM_ASSERT(stream_ != nullptr, "Zstandard has no memory");
    constexpr int kLargestWindow = 31;  // zstd --long=31
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kLargestWindow);
  }
  ZstdInflater(const ZstdInflater&) = delete;
  ZstdInflater& operator=(const ZstdInflater&) = delete;
  ~ZstdInflater() override { ZSTD_freeDStream(stream_); }

  void read(std::string& out, size_t most) override {
    const size_t before = out.size();
    out.resize(before + most);
    ZSTD_outBuffer piece = {out.data() + before, most, 0};
    while (piece.pos < piece.size) {
      const size_t had = piece.pos;
      const bool at_end = in_.pos == in_.size;
      if (at_end && hint_ == 0) break;
      hint_ = ZSTD_decompressStream(stream_, &piece, &in_);
      if (ZSTD_isError(hint_) != 0) {
        fail_to_unpack(path_, cat("the Zstandard file is damaged: ", ZSTD_getErrorName(hint_)));
      }
      if (at_end && hint_ != 0 && piece.pos == had)
        fail_to_unpack(path_, "the Zstandard file ends early");
    }
    out.resize(before + piece.pos);
  }
  size_t consumed() const override { return in_.pos; }

 private:
  fs::path path_;
  ZSTD_inBuffer in_;
  ZSTD_DStream* stream_;
  size_t hint_ = 1;  // last result of ZSTD_decompressStream(); 0: the frame is complete
};

std::string_view text_of(const MappedFile& map) {
  return {reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()};
}

}  // namespace

DataFile::DataFile(const fs::path& path, std::string_view wanted)
    : path_(path), name_(path), wanted_(wanted), map_(path) {
  const std::string_view text = text_of(map_);
  if (text.empty()) throw Error(ErrorKind::kFormat, cat(path.string(), ": the file is empty"));
  if (starts_with(text, kGzip)) {
    compression_ = Compression::kGzip;
  } else if (starts_with(text, kZstd)) {
    compression_ = Compression::kZstd;
  } else {
    is_table_ = formats::parquet::is_parquet(text);
    if (!is_table_) refuse_known_format(path, map_.bytes(), wanted);
    return;
  }
  if (name_.extension() == ".gz" || name_.extension() == ".zst") name_.replace_extension();
}

// Throws Error(kFormat) if the decompressed content begins like an archive, a table or another
// known format. `beginning`: the first bytes of the content.
void DataFile::refuse_packed(std::string_view beginning) const {
  refuse_known_format(path_, std::as_bytes(std::span(beginning)), wanted_);
  constexpr size_t kTarMagic = 257;
  if (beginning.size() > kTarMagic && starts_with(beginning.substr(kTarMagic), "ustar")) {
    throw Error(ErrorKind::kFormat, cat(path_.string(), ": this is a tar archive, not ", wanted_),
                "unpack it first");
  }
}

void DataFile::for_each_block(const std::function<void(const DataBlock&)>& visit) const {
  for_blocks([&](const DataBlock& block) {
    visit(block);
    return true;
  });
}

DataBlock DataFile::beginning() const {
  DataBlock first;
  for_blocks([&](const DataBlock& block) {
    first = block;
    return false;
  });
  return first;
}

void DataFile::for_blocks(const std::function<bool(const DataBlock&)>& visit) const {
  const std::string_view bytes = text_of(map_);
  if (compression_ == Compression::kNone) {
    visit({bytes, static_cast<int64_t>(bytes.size()), nullptr});
    return;
  }
  std::unique_ptr<Inflater> inflater;
  if (compression_ == Compression::kGzip) inflater = std::make_unique<GzipInflater>(path_, bytes);
  if (compression_ == Compression::kZstd) inflater = std::make_unique<ZstdInflater>(path_, bytes);
  std::string rest;  // the incomplete last line of the previous block
  bool first = true;
  while (true) {
    std::string block = std::exchange(rest, {});
    const size_t before = block.size();
    inflater->read(block, kBlockBytes);
    const bool ended = block.size() == before;
    if (!ended) {
      const size_t in_new = std::string_view(block).substr(before).rfind('\n');
      if (in_new == std::string_view::npos) {
        rest = std::move(block);  // the line does not end in this block
        continue;
      }
      const size_t end = before + in_new;
      rest = block.substr(end + 1);
      block.resize(end + 1);
    }
    if (std::exchange(first, false)) refuse_packed(block);
    if (!block.empty()) {
      auto owner = std::make_shared<const std::string>(std::move(block));
      if (!visit({*owner, static_cast<int64_t>(inflater->consumed()), owner})) return;
    }
    if (ended) return;
  }
}

DataBlock DataFile::whole() const {
  const auto bytes = static_cast<int64_t>(map_.bytes().size());
  if (compression_ == Compression::kNone) return {text_of(map_), bytes, nullptr};
  std::string all;
  for_each_block([&](const DataBlock& block) { all += block.text; });
  auto owner = std::make_shared<const std::string>(std::move(all));
  return {*owner, bytes, owner};
}

}  // namespace am::data
