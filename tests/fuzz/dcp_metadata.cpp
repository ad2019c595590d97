// Input: the `.metadata` of a distributed checkpoint.
#include "am/formats/dcp_metadata.h"

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const am::fuzz::MemoryFile file(data, size);
  try {
    am::formats::read_dcp_metadata(file.path());
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
