// Input: one byte, followed by text to train on. If the byte is odd, the text is read as a .jsonl
// file. Otherwise, the reader detects the text's format from the content.
#include <array>

#include "am/data/token_source.h"
#include "support/temporary_folder.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryFolder folder;
  static const am::fuzz::MemoryFile lines(folder / "lines.jsonl");
  static const am::fuzz::MemoryFile text(folder / "text");
  if (size == 0) return 0;
  const bool by_name = data[0] % 2 == 1;
  (by_name ? lines : text).write(data + 1, size - 1);
  const auto file = folder / (by_name ? "lines.jsonl" : "text");
  try {
    const auto tokens = am::data::open_token_source(
        {.kind = "text", .paths = {file}, .vocab_size = 257, .eod_token = 256});
    std::array<int64_t, 1> last;
    tokens->read(tokens->size() - 1, last);
    if (last[0] != 256) std::abort();
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
