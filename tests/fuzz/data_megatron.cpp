// Input: Megatron's data set. The first byte is the length of the .bin file, which follows; all
// remaining bytes are the .idx file.
#include <algorithm>
#include <array>

#include "am/data/token_source.h"
#include "support/temporary_folder.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryFolder folder;
  static const am::fuzz::MemoryFile tokens_file(folder / "corpus.bin");
  static const am::fuzz::MemoryFile index_file(folder / "corpus.idx");
  if (size == 0) return 0;
  const size_t bin = std::min<size_t>(data[0], size - 1);
  tokens_file.write(data + 1, bin);
  index_file.write(data + 1 + bin, size - 1 - bin);
  try {
    const auto tokens = am::data::open_token_source(
        {.kind = "megatron", .paths = {folder / "corpus.idx"}, .vocab_size = 1 << 16});
    std::array<int64_t, 8> ids;
    for (int64_t at = 0; at < tokens->size(); at += 8) {
      const auto count = static_cast<size_t>(std::min<int64_t>(8, tokens->size() - at));
      tokens->read(at, std::span(ids).first(count));
    }
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
