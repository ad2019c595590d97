// Writes the parts of Parquet files, whether legal or not, for tests of readers.
//
// The metadata are in Thrift's compact protocol, so a Struct's fields must be added in the order of
// their ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace parquet_bytes {

inline std::span<const std::byte> view_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

inline std::string zigzag(int64_t value) {
  return varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
}

inline std::string fixed32(uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

class Struct {
 public:
  Struct& number(int id, int64_t value) { return add(id, 6, zigzag(value)); }
  Struct& text(int id, const std::string& value) {
    return add(id, 8, varint(value.size()) + value);
  }
  Struct& fields(int id, const Struct& value) { return add(id, 12, value.bytes()); }
  Struct& list(int id, const std::vector<Struct>& values) {
    std::string bytes = static_cast<char>(0xF0 | 12) + varint(values.size());
    for (const Struct& each : values) bytes += each.bytes();
    return add(id, 9, bytes);
  }
  std::string bytes() const { return bytes_ + '\0'; }

 private:
  Struct& add(int id, int type, const std::string& value) {
    bytes_ += static_cast<char>((id - last_) << 4 | type);
    bytes_ += value;
    last_ = id;
    return *this;
  }

  std::string bytes_;
  int last_ = 0;
};

// A page of version 1 with its header, whose fields can be changed.
struct Page {
  std::string bytes;
  int64_t values = 1;
  int64_t type = 0;       // 0: data page; else a dictionary page
  int64_t encoding = 0;   // PLAIN
  int64_t unpacked = -1;  // uncompressed size; -1: size of `bytes`
  int64_t stored = -1;    // compressed size; -1: size of `bytes`

  std::string whole() const {
    const auto size = static_cast<int64_t>(bytes.size());
    Struct details;
    details.number(1, values).number(2, encoding);
    if (type == 0) details.number(3, 3).number(4, 3);  // levels are run-length encoded
    return Struct()
               .number(1, type)
               .number(2, unpacked < 0 ? size : unpacked)
               .number(3, stored < 0 ? size : stored)
               .fields(type == 0 ? 5 : 7, details)
               .bytes() +
           bytes;
  }
};

// A file of one column in one row group.
struct File {
  std::vector<Struct> schema;  // without the root
  int64_t physical = 6;        // BYTE_ARRAY
  int64_t codec = 0;
  int64_t rows = 1;
  int64_t group_rows = -1;  // -1: `rows`
  int64_t values = -1;      // number of values in the column; -1: `rows`
  int64_t offset = 4;
  int64_t stored = -1;  // bytes of the column; -1: those of the pages
  std::string pages;

  std::string whole() const {
    const auto or_else = [](int64_t value, int64_t other) { return value < 0 ? other : value; };
    Struct column;
    column.number(1, physical).number(4, codec).number(5, or_else(values, rows));
    column.number(7, or_else(stored, static_cast<int64_t>(pages.size()))).number(9, offset);
    const Struct group =
        Struct().list(1, {Struct().fields(3, column)}).number(3, or_else(group_rows, rows));
    std::vector<Struct> elements = {Struct().text(4, "root").number(5, 1)};
    elements.insert(elements.end(), schema.begin(), schema.end());
    const std::string footer =
        Struct().number(1, 1).list(2, elements).number(3, rows).list(4, {group}).bytes();
    return "PAR1" + pages + footer + fixed32(static_cast<uint32_t>(footer.size())) + "PAR1";
  }
};

// Returns a leaf of a schema. `repetition`: 0 required, 1 optional, 2 repeated; `converted`: -1, or
// a number of ConvertedType (0: UTF8).
inline Struct leaf(const std::string& name, int64_t type, int64_t repetition,
                   int64_t converted = -1) {
  Struct made;
  made.number(1, type).number(3, repetition).text(4, name);
  if (converted >= 0) made.number(6, converted);
  return made;
}

// Returns a text in PLAIN encoding: the length, then the bytes of the text.
inline std::string plain(const std::string& text) {
  return fixed32(static_cast<uint32_t>(text.size())) + text;
}

// Returns the definition or repetition levels of a page of version 1: one run of `count` levels
// that all equal `level`.
inline std::string levels(uint64_t count, int level) {
  const std::string run = varint(count << 1) + static_cast<char>(level);
  return fixed32(static_cast<uint32_t>(run.size())) + run;
}

}  // namespace parquet_bytes
