// Input: a Python pickle.
#include "am/formats/pickle.h"

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto pickle =
        am::formats::Pickle::read({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    for (const auto& item : pickle.root().items()) item.find("key");
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
