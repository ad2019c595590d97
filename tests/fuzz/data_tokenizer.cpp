// Input: a tokenizer's file of any kind. An accepted tokenizer must encode text to ids below the
// vocabulary's size, with positions inside the text, and decode the ids.
#include <cstdlib>
#include <string>

#include "am/data/tokenizer.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file = am::fuzz::text_of(data, size);
  try {
    // tiktoken's files do not contain the pattern that splits text into words. The name "cl100k"
    // selects the pattern.
    const auto tokenizer = am::data::parse_tokenizer(file, "cl100k");
    for (const std::string_view text :
         {std::string_view("Hi there,  it's 1234 e\xcc\x81t\xc3\xa9 \n\n<|end|> </s>\xff\xe2\x82"),
          file.substr(0, 128)}) {
      const auto ids = tokenizer->encode(text, {.add_special_tokens = true});
      for (const int64_t id : ids) {
        if (id < 0) std::abort();
        static_cast<void>(tokenizer->token_bytes(id));
      }
      for (const auto& place : tokenizer->encode_with_offsets(text)) {
        if (place.id < 0 || place.id >= tokenizer->vocab_size()) std::abort();
        if (place.begin > place.end || place.end > text.size()) std::abort();
      }
      static_cast<void>(tokenizer->encode(text, {.split_special_tokens = true}));
      static_cast<void>(tokenizer->decode(ids));
    }
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
