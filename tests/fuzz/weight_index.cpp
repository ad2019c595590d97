// Input: model.safetensors.index.json.
#include "am/stored/weight_index.h"

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const am::fuzz::MemoryFile file(data, size);
  try {
    am::stored::read_weight_index(file.path());
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
