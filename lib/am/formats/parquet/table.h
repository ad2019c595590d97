// Reads the rows of an Apache Parquet file as JSON objects.
//
//   const MappedFile map("train.parquet");
//   const parquet::Table table("train.parquet", map.bytes());
//   const std::vector<std::string> names = {"text"};
//   table.for_each_row(names, [&](const parquet::Row& row) { use(row.object["text"]); });
//
// Supports texts, booleans, integers, floating-point numbers, JSON, and structs and lists of these,
// compressed by Snappy, gzip, Zstandard or not at all. Other types, codecs and encodings are an
// error, but only in a requested column. An encrypted footer is always an error.
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

// Whether a file with this content is a Parquet file, also one with an encrypted footer.
bool is_parquet(std::string_view file);

struct Row {
  int64_t number = 0;  // number of the row in the file, from 1
  Json object;         // an object with a key for each requested column that exists
  int64_t bytes = 0;   // approximate size as a line of JSON
};

class Table {
 public:
  // `bytes` is the whole file, which must outlive the object. Reads the footer. Throws
  // Error(kFormat) if it is damaged.
  Table(std::filesystem::path path, Bytes bytes);

  int64_t rows() const { return metadata_.rows; }
  // Returns the names of the columns, in the order of the file.
  std::vector<std::string> columns() const;

  // Calls `visit` with each row, in order. Only columns with these names are decoded, one page of
  // each at a time. Throws Error(kFormat) if a column has a type that is not supported and, with
  // the row, if the file is damaged or a row needs more than 512 MiB.
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
