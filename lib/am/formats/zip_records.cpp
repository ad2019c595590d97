#include "am/formats/zip_records.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/formats/little_endian.h"
#include "am/formats/zip_format.h"

namespace am::formats {

namespace {

constexpr size_t kLongestComment = 0xFFFF;
constexpr uint16_t kEncrypted = 1;

struct Entry {
  std::string_view name;
  uint64_t size = 0;
  uint64_t stored_size = 0;
  uint64_t local_offset = 0;
};

struct Directory {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t entries = 0;
};

class ZipReader {
 public:
  ZipReader(std::span<const std::byte> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  std::vector<ZipRecord> read() const {
    const Directory directory = find_directory();
    if (directory.entries > directory.size / kZipCentralBytes) {
      fail(cat(directory.entries, " records do not fit in a directory of ", directory.size,
               " bytes"));
    }
    std::vector<ZipRecord> records;
    std::vector<Entry> entries;
    std::unordered_set<std::string_view> names;
    size_t at = directory.offset;
    for (uint64_t i = 0; i < directory.entries; ++i) {
      const Entry entry = read_entry(at, directory.offset + directory.size);
      if (!names.insert(entry.name).second)
        fail(cat("two records have the name \"", entry.name, "\""));
      records.push_back({entry.name, data_of(entry, directory.offset)});
      entries.push_back(entry);
    }
    check_apart(entries, records);
    return records;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kFormat, cat(where_, ": not a valid file of torch.save: ", what),
                "the file may be cut off; fetch it again");
  }

  std::span<const std::byte> part(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      fail(cat("it needs ", size, " bytes at offset ", offset, ", but has only ", bytes_.size(),
               " bytes in all"));
    }
    return bytes_.subspan(offset, size);
  }

  // Returns the offset of the end record of the central directory. The comment in this record must
  // extend to the end of the archive.
  size_t find_end() const {
    if (bytes_.size() >= kZipEndBytes) {
      const size_t last = bytes_.size() - kZipEndBytes;
      const size_t first = last - std::min(last, kLongestComment);
      for (size_t at = last + 1; at-- > first;) {
        if (little_endian<uint32_t>(bytes_, at) == kZipEnd &&
            at + kZipEndBytes + little_endian<uint16_t>(bytes_, at + 20) == bytes_.size()) {
          return at;
        }
      }
    }
    fail("the end record of the zip file is missing");
  }

  Directory find_directory() const {
    const size_t end = find_end();
    const auto record = part(end, kZipEndBytes);
    if (little_endian<uint16_t>(record, 4) != 0 || little_endian<uint16_t>(record, 6) != 0) {
      fail("it is one of several volumes of a zip file");
    }
    Directory directory = {.offset = little_endian<uint32_t>(record, 16),
                           .size = little_endian<uint32_t>(record, 12),
                           .entries = little_endian<uint16_t>(record, 10)};
    if (directory.offset == kZipFull32 || directory.size == kZipFull32 ||
        directory.entries == kZipFull16) {
      if (end < kZipLocator64Bytes)
        fail("the zip64 locator is missing, which the end record requires");
      const auto locator = part(end - kZipLocator64Bytes, kZipLocator64Bytes);
      if (little_endian<uint32_t>(locator) != kZipLocator64) fail("the zip64 locator is missing");
      const auto end64 = part(little_endian<uint64_t>(locator, 8), kZipEnd64Bytes);
      if (little_endian<uint32_t>(end64) != kZipEnd64) fail("the zip64 end record is missing");
      directory = {.offset = little_endian<uint64_t>(end64, 48),
                   .size = little_endian<uint64_t>(end64, 40),
                   .entries = little_endian<uint64_t>(end64, 32)};
    }
    if (part(directory.offset, directory.size).size() > end - directory.offset) {
      fail("the zip file's central directory overlaps its end record");
    }
    return directory;
  }

  // Replaces each field that contains a placeholder by the next value in the zip64 extra field.
  // `extra`: all extra fields of the record. `fields`: for each field, whether it contains a
  // placeholder, and its address.
  void widen(std::span<const std::byte> extra,
             const std::array<std::pair<bool, uint64_t*>, 3>& fields) const {
    size_t at = 0;
    while (extra.size() - at >= 4) {
      const auto id = little_endian<uint16_t>(extra, at);
      const size_t size = little_endian<uint16_t>(extra, at + 2);
      at += 4;
      if (size > extra.size() - at) fail("an extra field is longer than its record");
      if (id != kZipExtra64) {
        at += size;
        continue;
      }
      auto values = extra.subspan(at, size);
      for (const auto& [full, field] : fields) {
        if (!full) continue;
        if (values.size() < sizeof(uint64_t)) fail("the zip64 extra field is too short");
        *field = little_endian<uint64_t>(values);
        values = values.subspan(sizeof(uint64_t));
      }
      return;
    }
    for (const auto& [full, field] : fields) {
      if (full) fail("the zip64 extra field is missing");
    }
  }

  // Returns the central directory's entry at offset `at`, and moves `at` to the next entry. `end`:
  // offset of the end of the central directory.
  Entry read_entry(size_t& at, size_t end) const {
    if (end - at < kZipCentralBytes) fail("the zip file's central directory is cut off");
    const auto header = part(at, kZipCentralBytes);
    if (little_endian<uint32_t>(header) != kZipCentralHeader)
      fail("an entry of the zip file's central directory has no valid signature");
    const size_t name = little_endian<uint16_t>(header, 28);
    const size_t extra = little_endian<uint16_t>(header, 30);
    const size_t comment = little_endian<uint16_t>(header, 32);
    at += kZipCentralBytes;
    if (name + extra + comment > end - at) fail("the zip file's central directory is cut off");
    Entry entry = {.name = text(part(at, name)),
                   .size = little_endian<uint32_t>(header, 24),
                   .stored_size = little_endian<uint32_t>(header, 20),
                   .local_offset = little_endian<uint32_t>(header, 42)};
    if ((little_endian<uint16_t>(header, 8) & kEncrypted) != 0) fail_record(entry, "is encrypted");
    if (little_endian<uint16_t>(header, 10) != 0) fail_record(entry, "is compressed");
    widen(part(at + name, extra), {{{entry.size == kZipFull32, &entry.size},
                                    {entry.stored_size == kZipFull32, &entry.stored_size},
                                    {entry.local_offset == kZipFull32, &entry.local_offset}}});
    if (entry.size != entry.stored_size)
      fail_record(entry, "is stored without compression, but its two sizes differ");
    at += name + extra + comment;
    return entry;
  }

  [[noreturn]] void fail_record(const Entry& entry, const std::string& what) const {
    fail(cat("the record \"", entry.name, "\" ", what));
  }

  static std::string_view text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // Returns a record's data, which must end before the central directory. `entry` has the size from
  // the central directory, because the size in the local header may be 0 or a placeholder.
  // `directory`: offset of the central directory.
  std::span<const std::byte> data_of(const Entry& entry, uint64_t directory) const {
    const auto header = part(entry.local_offset, kZipLocalBytes);
    if (little_endian<uint32_t>(header) != kZipLocalHeader)
      fail_record(entry, "has no local header");
    const size_t name = little_endian<uint16_t>(header, 26);
    const size_t extra = little_endian<uint16_t>(header, 28);
    const uint64_t begin = entry.local_offset + kZipLocalBytes;
    if (text(part(begin, name)) != entry.name) fail_record(entry, "has another name in its header");
    if (little_endian<uint16_t>(header, 8) != 0) fail_record(entry, "is compressed");
    const auto data = part(begin + name + extra, entry.size);
    if (begin + name + extra + entry.size > directory) {
      fail_record(entry, "overlaps the directory");
    }
    return data;
  }

  // Throws if two records overlap. A record extends from its local header to the end of its data.
  void check_apart(const std::vector<Entry>& entries, const std::vector<ZipRecord>& records) const {
    std::vector<std::pair<uint64_t, uint64_t>> extents;
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto& data = records[i].data;
      extents.emplace_back(entries[i].local_offset,
                           static_cast<uint64_t>(data.data() - bytes_.data()) + data.size());
    }
    std::sort(extents.begin(), extents.end());
    for (size_t i = 1; i < extents.size(); ++i) {
      if (extents[i - 1].second > extents[i].first) {
        fail(cat("two records overlap at byte ", extents[i].first));
      }
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& where_;
};

}  // namespace

bool is_zip(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(uint32_t) && little_endian<uint32_t>(bytes) == kZipLocalHeader;
}

std::vector<ZipRecord> read_zip_records(std::span<const std::byte> bytes,
                                        const std::string& where) {
  return ZipReader(bytes, where).read();
}

}  // namespace am::formats
