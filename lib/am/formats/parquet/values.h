// Decodes the values of a page to JSON values.
#pragma once

#include <memory>
#include <vector>

#include "am/base/json.h"
#include "am/formats/parquet/metadata.h"
#include "am/formats/parquet/schema.h"

namespace am::formats::parquet {

// Reads the values of a page, which do not include nulls. next() throws Error(kFormat) if no value
// is left, or if the next one is damaged, for example a text that is not UTF-8, or a value of the
// kind kJson that is not JSON.
class ValueReader {
 public:
  ValueReader() = default;
  ValueReader(const ValueReader&) = delete;
  ValueReader& operator=(const ValueReader&) = delete;
  virtual ~ValueReader() = default;

  virtual Json next() = 0;
};

// Returns a reader of the values of a page. Floating-point numbers that are not finite become null,
// as in JSON Lines. `bytes`, and the dictionary for the encodings that have one, must outlive
// the reader. Throws Error(kFormat) for an encoding that the type cannot have or that is not
// implemented, and for damaged bytes.
std::unique_ptr<ValueReader> read_values(const SchemaLeaf& leaf, Encoding encoding, Bytes bytes,
                                         const std::vector<Json>* dictionary);

// Returns the values of a dictionary page.
std::vector<Json> read_dictionary(const SchemaLeaf& leaf, const PageHeader& header, Bytes bytes);

}  // namespace am::formats::parquet
