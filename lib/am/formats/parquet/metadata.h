// The footer and the page headers of a Parquet file, as C++ values. The numbers of enumerators are
// those of parquet.thrift in Apache's parquet-format, except for LogicalType.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/formats/parquet/byte_reader.h"

namespace am::formats::parquet {

enum class PhysicalType {
  kBoolean = 0,
  kInt32 = 1,
  kInt64 = 2,
  kInt96 = 3,
  kFloat = 4,
  kDouble = 5,
  kByteArray = 6,
  kFixedByteArray = 7,
};

enum class Repetition { kRequired = 0, kOptional = 1, kRepeated = 2 };

enum class Codec {
  kUncompressed = 0,
  kSnappy = 1,
  kGzip = 2,
  kLzo = 3,
  kBrotli = 4,
  kLz4 = 5,
  kZstd = 6,
  kLz4Raw = 7,
};

enum class Encoding {
  kPlain = 0,
  kPlainDictionary = 2,
  kRle = 3,
  kBitPacked = 4,
  kDeltaBinaryPacked = 5,
  kDeltaLengthByteArray = 6,
  kDeltaByteArray = 7,
  kRleDictionary = 8,
  kByteStreamSplit = 9,
};

// Meaning of a schema element, in addition to its physical type. kUnknown is Parquet's type
// UNKNOWN, for columns that contain only nulls. kOther stands for all types that cannot be read.
enum class LogicalType {
  kNone,
  kText,
  kJson,
  kList,
  kSigned,
  kUnsigned,
  kUnknown,
  kOther,
};

// A column, or a group of columns. A schema is a list of elements in depth-first order, the root
// first.
struct SchemaElement {
  std::optional<PhysicalType> type;  // absent: a group
  Repetition repetition = Repetition::kRequired;
  std::string name;
  int64_t children = 0;
  LogicalType logical = LogicalType::kNone;
  std::string logical_name;  // description of a kOther type for messages, for example "a date"
};

// The values of one column in one row group.
struct ColumnChunk {
  PhysicalType type = PhysicalType::kBoolean;
  Codec codec = Codec::kUncompressed;
  int64_t values = 0;  // number of entries: values, nulls and empty lists
  int64_t offset = 0;  // byte of the file at which the first page begins
  int64_t bytes = 0;   // size of all pages with their headers, before decompression
  bool encrypted = false;
  bool elsewhere = false;  // whether the pages are in another file
};

struct RowGroup {
  std::vector<ColumnChunk> columns;
  int64_t rows = 0;
};

struct Metadata {
  std::vector<SchemaElement> schema;
  std::vector<RowGroup> groups;
  int64_t rows = 0;
};

enum class PageType { kData = 0, kIndex = 1, kDictionary = 2, kDataV2 = 3 };

struct PageHeader {
  PageType type = PageType::kIndex;
  int64_t stored_bytes = 0;          // size of the page in the file, without this header
  int64_t unpacked_bytes = 0;        // size of the page after decompression
  std::optional<uint32_t> checksum;  // CRC-32 of the page's bytes in the file
  int64_t values = 0;                // number of entries: values, nulls and empty lists
  Encoding encoding = Encoding::kPlain;
  // Members for data pages of version 1: the encodings of the definition and repetition levels.
  Encoding def_encoding = Encoding::kRle;
  Encoding rep_encoding = Encoding::kRle;
  // Members for data pages of version 2: the sizes of the levels, which are never compressed, and
  // whether the values are compressed.
  int64_t def_bytes = 0;
  int64_t rep_bytes = 0;
  bool compressed = true;

  int64_t header_bytes = 0;  // size of the header itself
};

// Returns the content of the footer. `file`: all bytes of a Parquet file. Throws Error(kFormat),
// without the file's name in the message, if the footer is damaged or encrypted.
Metadata read_metadata(Bytes file);
// Returns the page header at the front of `bytes`. Throws Error(kFormat) if the header is damaged.
PageHeader read_page_header(Bytes bytes);

// Return a name for messages, for example "INT96", "Brotli" or "BYTE_STREAM_SPLIT"; for an unknown
// value, its number.
std::string name_of(PhysicalType type);
std::string name_of(Codec codec);
std::string name_of(Encoding encoding);

}  // namespace am::formats::parquet
