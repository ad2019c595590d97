// Input: a safetensors file.
#include "am/formats/safetensors.h"

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const am::fuzz::MemoryFile file(data, size);
  try {
    const auto opened = am::formats::SafetensorsFile::open(file.path());
    for (const auto& entry : opened.entries()) opened.data(entry);
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
