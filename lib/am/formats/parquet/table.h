// Reads the rows of an Apache Parquet file as JSON objects.
//
//   const MappedFile map("train.parquet");
//   const parquet::Table table("train.parquet", map.bytes());
//   const std::vector<std::string> names = {"text"};
//   table.for_each_row(names, [&](const parquet::Row& row) { use(row.object["text"]); });
//
// Supports texts, booleans, integers, floating-point numbers, JSON, and structs and lists of these
// types. Pages may be compressed by Snappy, gzip or Zstandard. A requested column with another
// type, codec or encoding is an error. An encrypted footer is always an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/json.h"
#include "am/formats/parquet/metadata.h"
#include "am/formats/parquet/schema.h"

namespace am::formats::parquet {

// Whether `file`, the bytes of a file, is a Parquet file. True for encrypted Parquet files, too.
bool is_parquet(std::string_view file);

struct Row {
  int64_t number = 0;  // number of the row in the file, from 1
  Json object;         // an object with a key for each requested column that exists
  int64_t bytes = 0;   // approximate size as a line of JSON
};

class Table {
 public:
  // Reads the footer. `bytes` are those of the whole file, and must outlive the object; `path` is
  // for messages. Throws Error(kFormat) if the footer is damaged.
  Table(std::filesystem::path path, Bytes bytes);

  int64_t rows() const { return metadata_.rows; }
  // Returns the names of the columns, in the order of the file.
  std::vector<std::string> columns() const;

  // Calls `visit` with each row, in order. Decodes only the columns with these names, one page of
  // each at a time; ignores a name that no column has. Throws Error(kFormat) if one of the columns
  // has a type that is not supported, or if two of them have the same name. If the file is damaged
  // or a row needs more than 512 MiB, throws Error(kFormat) with the row's number.
  void for_each_row(std::span<const std::string> names,
                    const std::function<void(Row)>& visit) const;

 private:
  std::vector<const SchemaNode*> wanted(std::span<const std::string> names) const;

  std::filesystem::path path_;
  Bytes bytes_;
  Metadata metadata_;
  Schema schema_;
};

}  // namespace am::formats::parquet
