// Input: a checkpoint's index.json. If the input is accepted, the text that the library writes for
// it must be unchanged after another read and write.
#include "am/run_folder/shard_index.h"

#include <cstdlib>

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace am::run_folder;
  try {
    const std::string kept = to_json_text(parse_shard_index(am::fuzz::text_of(data, size), "fuzz"));
    if (to_json_text(parse_shard_index(kept, "kept")) != kept) std::abort();
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
