// Decodes the values of a page to JSON values.
#pragma once

#include <memory>
#include <vector>

#include "am/base/json.h"
#include "am/formats/parquet/metadata.h"
#include "am/formats/parquet/schema.h"

namespace am::formats::parquet {

// Reads the values of a page one by one. The page stores no values for nulls. next() throws
// Error(kFormat) if no value is left, or if the next value is damaged, for example a text that is
// not UTF-8, or a value of the kind kJson that is not JSON.
class ValueReader {
 public:
  ValueReader() = default;
  ValueReader(const ValueReader&) = delete;
  ValueReader& operator=(const ValueReader&) = delete;
  virtual ~ValueReader() = default;

  virtual Json next() = 0;
};

// Returns a reader of the values in `bytes`, a page's bytes behind its levels. Floating-point
// numbers that are not finite become null, because JSON cannot represent them. `dictionary` is null
// if the column has none. `bytes` and `dictionary` must outlive the reader. Throws Error(kFormat)
// for damaged bytes, and for an encoding in which values of the leaf's type cannot be read.
std::unique_ptr<ValueReader> read_values(const SchemaLeaf& leaf, Encoding encoding, Bytes bytes,
                                         const std::vector<Json>* dictionary);

// Returns the values of a dictionary page; `bytes` is the decompressed page. Throws Error(kFormat)
// for damaged bytes, an unsupported encoding, or more than 2^24 values.
std::vector<Json> read_dictionary(const SchemaLeaf& leaf, const PageHeader& header, Bytes bytes);

}  // namespace am::formats::parquet
