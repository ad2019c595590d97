// Tokenizes texts for scripts/fixtures/check_tokenizers.py, which compares the results with those
// of other libraries.
//
//   tokenize TOKENIZER [special] [split]
//
// Standard input contains, for each text, its length in bytes and its bytes. Standard output
// contains, for each text, the number of tokens; for each token its id, and the begin and end of
// its bytes in the text; then the decoded text with special tokens and the decoded text without
// special tokens, each as a length and bytes. Numbers have 32 bits. `special` adds special tokens;
// `split` encodes special tokens in a text as ordinary text.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "am/base/error.h"
#include "am/data/tokenizer.h"

namespace {

bool read(std::string& out) {
  uint32_t size = 0;
  if (std::fread(&size, sizeof(size), 1, stdin) != 1) return false;
  out.resize(size);
  return std::fread(out.data(), 1, size, stdin) == size;
}

void write(uint32_t number) { std::fwrite(&number, sizeof(number), 1, stdout); }

void write(const std::string& text) {
  write(static_cast<uint32_t>(text.size()));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  am::data::EncodeOptions options;
  for (int i = 2; i < argc; ++i) {
    options.add_special_tokens |= std::string_view(argv[i]) == "special";
    options.split_special_tokens |= std::string_view(argv[i]) == "split";
  }
  try {
    const auto tokenizer = am::data::make_tokenizer(argv[1]);
    for (std::string text; read(text);) {
      const auto ids = tokenizer->encode(text, options);
      const auto places = tokenizer->encode_with_offsets(text, options);
      if (ids.size() != places.size()) {
        std::cerr << "encode gives " << ids.size() << " tokens, encode_with_offsets "
                  << places.size() << "\n";
        return 1;
      }
      write(static_cast<uint32_t>(ids.size()));
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] != places[i].id) {
          std::cerr << "encode and encode_with_offsets differ\n";
          return 1;
        }
        write(static_cast<uint32_t>(ids[i]));
        write(static_cast<uint32_t>(places[i].begin));
        write(static_cast<uint32_t>(places[i].end));
      }
      write(tokenizer->decode(ids));
      write(tokenizer->decode(ids, /*skip_special_tokens=*/true));
    }
  } catch (const am::Error& error) {
    std::cerr << error.what() << "\n";
    return error.exit_status();
  }
  return 0;
}
