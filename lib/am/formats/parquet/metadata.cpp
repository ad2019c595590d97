#include "am/formats/parquet/metadata.h"

#include <algorithm>
#include <array>
#include <utility>

#include "am/formats/parquet/thrift.h"

namespace am::formats::parquet {

namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr std::string_view kEncryptedMagic = "PARE";
constexpr size_t kTailBytes = 8;  // the footer's length, and the magic

// Reads the number of an enumerator. `Enum` need not have an enumerator with this number.
template <typename Enum>
Enum enumerator(ThriftReader& reader, ThriftType type) {
  const int64_t number = reader.integer(type);
  if (number < 0 || number > 1000)
    fail_damaged(cat("an enum field has the illegal value ", number));
  return static_cast<Enum>(number);
}

// Reads a count or size, which must not be negative.
int64_t count(ThriftReader& reader, ThriftType type) {
  const int64_t number = reader.integer(type);
  if (number < 0) fail_damaged(cat("a count or size is negative: ", number));
  return number;
}

struct Meaning {
  LogicalType type;
  const char* name = "";
};

// Returns the meaning of a field, given by its id, of parquet.thrift's union LogicalType.
Meaning logical_type(int64_t field) {
  switch (field) {
    case 1:
    case 4:
      return {LogicalType::kText};
    case 2:
      return {LogicalType::kOther, "a map"};
    case 3:
      return {LogicalType::kList};
    case 5:
      return {LogicalType::kOther, "a decimal number"};
    case 6:
      return {LogicalType::kOther, "a date"};
    case 7:
      return {LogicalType::kOther, "a time"};
    case 8:
      return {LogicalType::kOther, "a timestamp"};
    case 10:
      return {LogicalType::kSigned};  // read_logical_type() corrects this for unsigned integers
    case 11:
      return {LogicalType::kUnknown};
    case 12:
      return {LogicalType::kJson};
    case 13:
      return {LogicalType::kOther, "BSON"};
    case 14:
      return {LogicalType::kOther, "a UUID"};
    case 15:
      return {LogicalType::kOther, "a float of 16 bits"};
    default:
      return {LogicalType::kOther, "of a logical type that is not known here"};
  }
}

// Returns the meaning of a ConvertedType, the predecessor of LogicalType in older files.
Meaning converted_type(int64_t number) {
  constexpr std::array<int64_t, 11> kFields = {1, 2, 2, 3, 4, 5, 6, 7, 7, 8, 8};
  if (number >= 0 && number <= 10) return logical_type(kFields[static_cast<size_t>(number)]);
  if (number >= 11 && number <= 14) return {LogicalType::kUnsigned};
  if (number >= 15 && number <= 18) return {LogicalType::kSigned};
  if (number == 19) return logical_type(12);
  if (number == 20) return logical_type(13);
  return {LogicalType::kOther, "an interval"};
}

Meaning read_logical_type(ThriftReader& reader, ThriftType type) {
  Meaning meaning = {LogicalType::kNone};
  reader.fields_of(type, [&](int64_t id, ThriftType field) {
    meaning = logical_type(id);
    if (id != 10) return reader.skip(field);
    reader.fields_of(field, [&](int64_t part, ThriftType part_type) {
      if (part != 2) return reader.skip(part_type);
      if (!reader.boolean(part_type)) meaning = {LogicalType::kUnsigned};
    });
  });
  return meaning;
}

SchemaElement read_schema_element(ThriftReader& reader, ThriftType type) {
  SchemaElement element;
  Meaning meaning = {LogicalType::kNone};
  bool has_logical = false;
  reader.fields_of(type, [&](int64_t id, ThriftType field) {
    switch (id) {
      case 1:
        element.type = enumerator<PhysicalType>(reader, field);
        break;
      case 3:
        element.repetition = enumerator<Repetition>(reader, field);
        break;
      case 4:
        element.name = reader.text(field);
        break;
      case 5:
        element.children = count(reader, field);
        break;
      case 6: {
        const int64_t converted = reader.integer(field);
        if (!has_logical) meaning = converted_type(converted);
        break;
      }
      case 10:
        meaning = read_logical_type(reader, field);
        has_logical = true;
        break;
      default:
        reader.skip(field);
    }
  });
  element.logical = meaning.type;
  element.logical_name = meaning.name;
  return element;
}

ColumnChunk read_column_chunk(ThriftReader& reader, ThriftType type) {
  ColumnChunk chunk;
  bool has_metadata = false;
  int64_t data_offset = 0;
  int64_t dictionary_offset = 0;
  reader.fields_of(type, [&](int64_t id, ThriftType field) {
    if (id == 1)
      chunk.elsewhere = !reader.text(field).empty();
    else if (id == 8 || id == 9) {
      chunk.encrypted = true;
      reader.skip(field);
    } else if (id != 3)
      reader.skip(field);
    else {
      has_metadata = true;
      reader.fields_of(field, [&](int64_t part, ThriftType part_type) {
        switch (part) {
          case 1:
            chunk.type = enumerator<PhysicalType>(reader, part_type);
            break;
          case 4:
            chunk.codec = enumerator<Codec>(reader, part_type);
            break;
          case 5:
            chunk.values = count(reader, part_type);
            break;
          case 7:
            chunk.bytes = count(reader, part_type);
            break;
          case 9:
            data_offset = count(reader, part_type);
            break;
          case 11:
            dictionary_offset = count(reader, part_type);
            break;
          default:
            reader.skip(part_type);
        }
      });
    }
  });
  if (!has_metadata && !chunk.encrypted) fail_damaged("a column has no metadata");
  // Some writers store the offset 0 if there is no dictionary.
  const bool has_dictionary = dictionary_offset > 0 && dictionary_offset < data_offset;
  chunk.offset = has_dictionary ? dictionary_offset : data_offset;
  return chunk;
}

RowGroup read_row_group(ThriftReader& reader, ThriftType type) {
  RowGroup group;
  reader.fields_of(type, [&](int64_t id, ThriftType field) {
    if (id == 1) {
      reader.elements(field, [&](ThriftType element) {
        group.columns.push_back(read_column_chunk(reader, element));
      });
    } else if (id == 3) {
      group.rows = count(reader, field);
    } else {
      reader.skip(field);
    }
  });
  return group;
}

// Returns the bytes of the footer of a Parquet file.
Bytes footer_of(Bytes file) {
  const std::string_view text = as_text(file);
  if (starts_with(text, kEncryptedMagic) || ends_with(text, kEncryptedMagic)) {
    fail_unsupported("the Parquet file is encrypted");
  }
  if (file.size() < kMagic.size() + kTailBytes || !ends_with(text, kMagic)) {
    fail_damaged("the Parquet file has no footer at its end");
  }
  const Bytes before = file.first(file.size() - kTailBytes);
  const auto length = little_endian<uint32_t>(file, before.size());
  if (length > before.size() - kMagic.size()) {
    fail_damaged(
        cat("the Parquet footer would have ", length, " bytes, but the file has ", file.size()));
  }
  return before.last(length);
}

}  // namespace

Metadata read_metadata(Bytes file) {
  const Bytes footer = footer_of(file);
  return at_place(
      [&] {
        Metadata metadata;
        ThriftReader reader(footer);
        reader.fields([&](int64_t id, ThriftType type) {
          switch (id) {
            case 2:
              reader.elements(type, [&](ThriftType element) {
                metadata.schema.push_back(read_schema_element(reader, element));
              });
              break;
            case 3:
              metadata.rows = count(reader, type);
              break;
            case 4:
              reader.elements(type, [&](ThriftType element) {
                metadata.groups.push_back(read_row_group(reader, element));
              });
              break;
            case 8:
              fail_unsupported("some columns are encrypted");
            default:
              reader.skip(type);
          }
        });
        return metadata;
      },
      [] { return "the Parquet footer"; });
}

PageHeader read_page_header(Bytes bytes) {
  PageHeader header;
  ThriftReader reader(bytes);
  bool has_details = false;
  reader.fields([&](int64_t id, ThriftType type) {
    switch (id) {
      case 1:
        header.type = enumerator<PageType>(reader, type);
        return;
      case 2:
        header.unpacked_bytes = count(reader, type);
        return;
      case 3:
        header.stored_bytes = count(reader, type);
        return;
      case 4:
        header.checksum = static_cast<uint32_t>(reader.integer(type));
        return;
      case 5:
      case 7:
      case 8:
        break;
      default:
        return reader.skip(type);
    }
    has_details = true;
    const bool v2 = id == 8;
    reader.fields_of(type, [&](int64_t part, ThriftType part_type) {
      if (part == 1) {
        header.values = count(reader, part_type);
      } else if (part == (v2 ? 4 : 2)) {
        header.encoding = enumerator<Encoding>(reader, part_type);
      } else if (id == 5 && part == 3) {
        header.def_encoding = enumerator<Encoding>(reader, part_type);
      } else if (id == 5 && part == 4) {
        header.rep_encoding = enumerator<Encoding>(reader, part_type);
      } else if (v2 && part == 5) {
        header.def_bytes = count(reader, part_type);
      } else if (v2 && part == 6) {
        header.rep_bytes = count(reader, part_type);
      } else if (v2 && part == 7) {
        header.compressed = reader.boolean(part_type);
      } else {
        reader.skip(part_type);
      }
    });
  });
  if (!has_details && header.type != PageType::kIndex)
    fail_damaged("the page header is incomplete");
  header.header_bytes = static_cast<int64_t>(reader.consumed());
  return header;
}

namespace {

template <size_t N>
std::string name_in(const std::array<const char*, N>& names, int number) {
  const auto index = static_cast<size_t>(number);
  return index < N ? names[index] : cat("number ", number);
}

}  // namespace

std::string name_of(PhysicalType type) {
  constexpr std::array<const char*, 8> kNames = {
      "BOOLEAN", "INT32",  "INT64",      "INT96",
      "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"};
  return name_in(kNames, static_cast<int>(type));
}

std::string name_of(Codec codec) {
  constexpr std::array<const char*, 8> kNames = {"nothing", "Snappy", "gzip",      "LZO",
                                                 "Brotli",  "LZ4",    "Zstandard", "LZ4_RAW"};
  return name_in(kNames, static_cast<int>(codec));
}

std::string name_of(Encoding encoding) {
  constexpr std::array<const char*, 10> kNames = {"PLAIN",
                                                  "number 1",
                                                  "PLAIN_DICTIONARY",
                                                  "RLE",
                                                  "BIT_PACKED",
                                                  "DELTA_BINARY_PACKED",
                                                  "DELTA_LENGTH_BYTE_ARRAY",
                                                  "DELTA_BYTE_ARRAY",
                                                  "RLE_DICTIONARY",
                                                  "BYTE_STREAM_SPLIT"};
  return name_in(kNames, static_cast<int>(encoding));
}

}  // namespace am::formats::parquet
