#include "am/formats/torch_slice.h"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/formats/pickle_writer.h"
#include "am/formats/torch_archive.h"
#include "am/formats/zip_format.h"

namespace am::formats {

namespace {

constexpr size_t kExtraHeader = 4;
constexpr uint16_t kExtraPadding = 0x4246;  // "FB", torch.save's extra field for padding

template <typename... Numbers>
void append(std::string& to, Numbers... numbers) {
  const auto one = [&](auto number) {
    std::array<char, sizeof number> bytes{};
    std::memcpy(bytes.data(), &number, sizeof number);
    to.append(bytes.data(), bytes.size());
  };
  (one(numbers), ...);
}

// Creates a zip archive. add() adds a record with its data. begin_aligned() adds only the header of
// the last record; the user of finish() writes this record's data between the two parts of the
// result.
class ArchiveWriter {
 public:
  void add(std::string_view name, std::string_view data) {
    begin(name, data.size(), {});
    bytes_.append(data);
  }

  // Adds the header of the last record, padded so that the record's data begin at a multiple of
  // `alignment` bytes in the file. `size`: number of bytes of the data. `position`: offset of the
  // archive in the file.
  void begin_aligned(std::string_view name, uint64_t size, uint64_t position, size_t alignment) {
    std::string extra;
    if (size >= kZipFull32) append(extra, kZipExtra64, uint16_t{16}, size, size);
    const std::string path = path_of(name);
    const uint64_t unpadded =
        position + bytes_.size() + kZipLocalBytes + path.size() + extra.size() + kExtraHeader;
    const uint64_t padding = (alignment - unpadded % alignment) % alignment;
    append(extra, kExtraPadding, static_cast<uint16_t>(padding));
    extra.append(padding, 'Z');
    begin(name, size, extra);
    data_behind_ = size;
  }

  TorchSlice finish() && {
    const uint64_t directory = bytes_.size() + data_behind_;
    std::string after;
    for (const Record& record : records_) append_central(after, record);
    const uint64_t size = after.size();
    const auto count = static_cast<uint16_t>(records_.size());
    const bool large = directory >= kZipFull32;
    if (large) {
      append(after, kZipEnd64, uint64_t{44}, uint16_t{45}, uint16_t{45}, uint32_t{0}, uint32_t{0},
             uint64_t{count}, uint64_t{count}, size, directory);
      append(after, kZipLocator64, uint32_t{0}, directory + size, uint32_t{1});
    }
    append(after, kZipEnd, uint16_t{0}, uint16_t{0}, count, count, static_cast<uint32_t>(size),
           large ? kZipFull32 : static_cast<uint32_t>(directory), uint16_t{0});
    return {std::move(bytes_), std::move(after)};
  }

 private:
  struct Record {
    std::string path;
    uint64_t size = 0;
    uint64_t offset = 0;
  };

  static std::string path_of(std::string_view name) { return std::string("archive/").append(name); }
  static uint32_t short_size(uint64_t size) {
    return size >= kZipFull32 ? kZipFull32 : static_cast<uint32_t>(size);
  }

  void begin(std::string_view name, uint64_t size, const std::string& extra) {
    records_.push_back({path_of(name), size, bytes_.size()});
    const std::string& path = records_.back().path;
    append(bytes_, kZipLocalHeader, version_of(size), uint16_t{0}, uint16_t{0}, uint32_t{0},
           uint32_t{0}, short_size(size), short_size(size), static_cast<uint16_t>(path.size()),
           static_cast<uint16_t>(extra.size()));
    bytes_.append(path).append(extra);
  }

  static void append_central(std::string& to, const Record& record) {
    std::string extra;
    if (record.size >= kZipFull32) {
      append(extra, kZipExtra64, uint16_t{16}, record.size, record.size);
    }
    append(to, kZipCentralHeader, version_of(record.size), version_of(record.size), uint16_t{0},
           uint16_t{0}, uint32_t{0}, uint32_t{0}, short_size(record.size), short_size(record.size),
           static_cast<uint16_t>(record.path.size()), static_cast<uint16_t>(extra.size()),
           uint16_t{0}, uint16_t{0}, uint16_t{0}, uint32_t{0},
           static_cast<uint32_t>(record.offset));
    to.append(record.path).append(extra);
  }

  // Returns 10 times the zip version that a reader must support: 45 if the size requires 64 bits,
  // otherwise 0.
  static uint16_t version_of(uint64_t size) { return size >= kZipFull32 ? 45 : 0; }

  std::string bytes_;
  std::vector<Record> records_;
  uint64_t data_behind_ = 0;
};

// Returns the pickle of a dense tensor: torch._utils._rebuild_tensor_v2(storage, 0, shape, strides,
// False, OrderedDict()). For a dtype without a storage class, the pickle calls _rebuild_tensor_v3,
// which has the dtype as an additional last argument, with an untyped storage. `bytes`: number of
// bytes of the tensor.
std::string tensor_pickle(std::string_view dtype, const Shape& shape, uint64_t bytes) {
  const std::string_view storage = torch_storage_class(dtype);
  PickleWriter pickle;
  pickle.global("torch._utils", storage.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  pickle.open_mark();
  pickle.open_mark();
  pickle.text("storage");
  if (storage.empty()) {
    pickle.global("torch.storage", "UntypedStorage");
  } else {
    pickle.global("torch", storage);
  }
  pickle.text("0");
  pickle.text("cpu");
  pickle.integer(storage.empty() ? static_cast<int64_t>(bytes) : numel(shape));
  pickle.close_tuple();
  pickle.persistent();
  pickle.integer(0);
  pickle.integers(shape);
  Shape strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
  pickle.integers(strides);
  pickle.boolean(false);
  pickle.global("collections", "OrderedDict");
  pickle.empty_tuple();
  pickle.reduce();
  if (storage.empty()) pickle.global("torch", dtype);
  pickle.close_tuple();
  pickle.reduce();
  return std::move(pickle).finish();
}

constexpr std::string_view kArchiveVersion = "3\n";

}  // namespace

TorchSlice tensor_slice(std::string_view dtype, const Shape& shape, uint64_t position,
                        size_t alignment) {
  const int64_t element = torch_dtype_size(dtype);
  AM_ASSERT(element > 0 && alignment <= size_t{1} << 15U,
            "unknown dtype, or alignment over 32 KiB");
  const uint64_t bytes = static_cast<uint64_t>(numel(shape)) * static_cast<uint64_t>(element);
  ArchiveWriter archive;
  archive.add("data.pkl", tensor_pickle(dtype, shape, bytes));
  archive.add("version", kArchiveVersion);
  archive.begin_aligned("data/0", bytes, position, alignment);
  return std::move(archive).finish();
}

SlicePlace place_slice(std::string_view dtype, const Shape& shape, uint64_t offset) {
  const TorchSlice slice = tensor_slice(dtype, shape, offset);
  const auto values = static_cast<uint64_t>(numel(shape) * torch_dtype_size(dtype));
  const uint64_t position = offset + slice.before.size();
  return {offset, position, position + values + slice.after.size()};
}

std::string value_slice(std::string_view pickle) {
  ArchiveWriter archive;
  archive.add("data.pkl", pickle);
  archive.add("version", kArchiveVersion);
  TorchSlice slice = std::move(archive).finish();
  return slice.before + slice.after;
}

}  // namespace am::formats
