// Input: a Parquet file. The target reads all columns of up to 10,000 rows.
#include "am/base/json.h"
#include "am/formats/parquet/table.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A legal file of a few bytes can encode billions of rows, so reading stops after 10,000.
  constexpr int64_t kMostRows = 10'000;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const am::formats::parquet::Table table("fuzz.parquet", bytes);
    table.for_each_row(table.columns(), [&](const am::formats::parquet::Row& row) {
      if (!row.object.is_object() || row.number > table.rows()) std::abort();
      if (row.number > kMostRows) throw am::Error(am::ErrorKind::kRuntime, "enough");
    });
  } catch (const am::Error& error) {
    // Invalid input is refused with an error.
    if (error.kind() == am::ErrorKind::kInternal) std::abort();
  }
  return 0;
}
