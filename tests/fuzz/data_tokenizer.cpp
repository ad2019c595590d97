// Input: tokenizer.json. With an accepted one, text is encoded to ids below the vocabulary's size,
// and ids are decoded to text.
#include <cstdlib>
#include <string>

#include "am/data/byte_bpe.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file = am::fuzz::text_of(data, size);
  try {
    const auto tokenizer = am::data::parse_byte_bpe(file, "tokenizer.json");
    for (const std::string_view text :
         {std::string_view("Hi there,  it's 1234 e\xcc\x81t\xc3\xa9 \n\n<|end|> \xff\xe2\x82"),
          file.substr(0, 128)}) {
      const auto ids = tokenizer->encode(text);
      for (const int64_t id : ids) {
        if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
      }
      static_cast<void>(tokenizer->decode(ids));
    }
  } catch (const am::Error&) {
    // Refused with a reason.
  }
  return 0;
}
