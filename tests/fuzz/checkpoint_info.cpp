// Input: checkpoint.json. If the input is accepted, the text that the library writes for it must be
// unchanged after another read and write.
#include "am/run_folder/checkpoint_info.h"

#include <cstdlib>
#include <string>

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace am::run_folder;
  try {
    const std::string text(am::fuzz::text_of(data, size));
    const std::string kept = to_json_text(parse_checkpoint_info(text, "fuzz"));
    if (to_json_text(parse_checkpoint_info(kept, "kept")) != kept) std::abort();
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
