// Reads the pages of a column in one row group.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/formats/parquet/codec.h"
#include "am/formats/parquet/integers.h"
#include "am/formats/parquet/metadata.h"
#include "am/formats/parquet/schema.h"
#include "am/formats/parquet/values.h"

namespace am::formats::parquet {

// Reads the entries of a column: values, nulls and empty lists, each with its levels (schema.h).
// Only one decompressed page and the dictionary are in memory at a time. The constructor and take()
// throw Error(kFormat) if the file is damaged or uses an unsupported feature. The message names the
// column.
class ColumnReader {
 public:
  // `file` and `leaf` must outlive the object.
  ColumnReader(Bytes file, const SchemaLeaf& leaf, const ColumnChunk& chunk);

  bool at_end() const { return at_end_; }
  // Repetition and definition level of the current entry; 0 at the end.
  int rep() const { return rep_; }
  int def() const { return def_; }
  // Returns the value of the current entry, or null for an entry without a value. Moves to the next
  // entry.
  Json take();

 private:
  std::string place() const;
  void read_entry();
  bool next_page();
  void open_data_page(const PageHeader& header, Bytes stored);
  void open_levels(Bytes reps, Bytes defs);

  const SchemaLeaf& leaf_;
  Codec codec_;
  Bytes file_;
  size_t at_ = 0;  // byte of the file at which the next page begins
  size_t end_ = 0;
  int64_t entries_left_ = 0;  // number of entries in the pages that are not opened yet
  // State of the current page.
  size_t page_ = 0;  // byte of the file at which the page's header begins
  int64_t left_in_page_ = 0;
  PageBuffer buffer_;
  RunReader reps_;
  RunReader defs_;
  std::vector<Json> dictionary_;
  bool has_dictionary_ = false;
  std::unique_ptr<ValueReader> values_;
  // State of the current entry.
  bool at_end_ = false;
  int rep_ = 0;
  int def_ = 0;
};

}  // namespace am::formats::parquet
