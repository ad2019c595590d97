#include "am/data/tokenizer.h"

#include "am/data/byte_bpe.h"

namespace am::data {
namespace {

class ByteTokenizer : public Tokenizer {
 public:
  void append_tokens(std::string_view text, std::vector<uint32_t>& out) const override {
    out.reserve(out.size() + text.size());
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  }
  void append_text(uint32_t id, std::string& out) const override {
    if (id < 256) out += static_cast<char>(id);
  }
  int64_t vocab_size() const override { return 256; }
  std::string name() const override { return "bytes"; }
};

}  // namespace

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<uint32_t> ids;
  append_tokens(text, ids);
  return {ids.begin(), ids.end()};
}

std::string Tokenizer::decode(std::span<const int64_t> ids) const {
  std::string text;
  for (const int64_t id : ids) {
    if (id >= 0 && id < vocab_size()) append_text(static_cast<uint32_t>(id), text);
  }
  return text;
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  return load_byte_bpe(name);
}

}  // namespace am::data
