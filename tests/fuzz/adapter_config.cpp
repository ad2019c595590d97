// Input: PEFT's adapter_config.json.
#include "am/stored/adapter_config.h"

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    am::stored::check_adapter_config(am::fuzz::text_of(data, size), "adapter_config.json",
                                     {.rank = 8, .scale = 2.0});
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
