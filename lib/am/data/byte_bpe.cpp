#include "am/data/byte_bpe.h"

#include <algorithm>
#include <array>
#include <optional>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/data/bpe_merges.h"
#include "am/data/tokenizer_json.h"
#include "am/data/unicode.h"

namespace am::data {
namespace {

// Returns the character by which GPT-2's vocabulary represents each byte: a printable byte
// represents itself, and the other bytes are U+0100, U+0101, ... in order.
std::array<std::string, 256> letters_of_bytes() {
  std::array<std::string, 256> letters;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                           (byte >= 0xAE && byte <= 0xFF);
    append_utf8(letters[byte], printable ? static_cast<char32_t>(byte) : next++);
  }
  return letters;
}

// Returns the bytes that a vocabulary entry represents; nothing if one of its characters is not in
// `byte_of`.
std::optional<std::string> bytes_of_letters(std::string_view text,
                                            const std::unordered_map<std::string, char>& byte_of) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const size_t length = static_cast<unsigned char>(text[at]) < 0x80 ? 1 : 2;
    const auto found = byte_of.find(std::string(text.substr(at, length)));
    if (found == byte_of.end()) return std::nullopt;
    bytes += found->second;
    at += length;
  }
  return bytes;
}

// An added token that was found in the text, at bytes [begin, end), including the white space that
// strip_left and strip_right remove.
struct Found {
  size_t begin;
  size_t end;
  uint32_t id;
};

// Finds added tokens: the leftmost match, and the longest of several that begin at the same byte.
class AddedTokens {
 public:
  void add(const AddedToken& token) {
    auto& list = by_first_byte_[static_cast<unsigned char>(token.content.front())];
    const auto place = std::find_if(list.begin(), list.end(), [&](const AddedToken& other) {
      return other.content.size() < token.content.size();
    });
    list.insert(place, token);
  }

  std::optional<Found> find(std::string_view text, size_t from) const {
    for (size_t at = from; at < text.size(); ++at) {
      for (const AddedToken& token : by_first_byte_[static_cast<unsigned char>(text[at])]) {
        if (!starts_with(text.substr(at), token.content)) continue;
        Found found{at, at + token.content.size(), token.id};
        if (token.strip_left) found.begin -= trailing_space(text.substr(from, at - from));
        if (token.strip_right) found.end += leading_space(text.substr(found.end));
        return found;
      }
    }
    return std::nullopt;
  }

 private:
  std::array<std::vector<AddedToken>, 256> by_first_byte_;
};

class ByteBpe : public Tokenizer {
 public:
  ByteBpe(ByteBpeSpec spec, std::string file);

  void append_tokens(std::string_view text, std::vector<uint32_t>& out) const override;
  void append_text(uint32_t id, std::string& out) const override {
    if (id < text_of_id_.size()) out += text_of_id_[id];
  }
  int64_t vocab_size() const override { return static_cast<int64_t>(text_of_id_.size()); }
  std::string name() const override { return file_; }

 private:
  void set_text(uint32_t id, const std::string& text);
  // Finds occurrences of `tokens` in the text: appends their ids to `out` and passes the text
  // between them to `rest`, in order.
  template <typename Rest>
  static void cut(const AddedTokens& tokens, std::string_view text, std::vector<uint32_t>& out,
                  const Rest& rest);
  void append_plain(std::string_view text, std::vector<uint32_t>& out) const;
  void append_pieces(std::string_view text, size_t step, std::vector<uint32_t>& out) const;
  void append_piece(std::string_view piece, std::vector<uint32_t>& out) const;

  std::string file_;
  ByteBpeSpec spec_;
  std::array<std::optional<uint32_t>, 256> id_of_byte_;
  // Ids of vocabulary entries, by their bytes; filled only if spec_.ignore_merges.
  std::unordered_map<std::string, uint32_t> id_of_bytes_;
  size_t tokens_;  // number of tokens that the tokenizer.json defines
  std::vector<std::string> text_of_id_;
  BpeMerges merges_;
  AddedTokens raw_added_;
  AddedTokens normalized_added_;
};

ByteBpe::ByteBpe(ByteBpeSpec spec, std::string file)
    : file_(std::move(file)),
      spec_(std::move(spec)),
      tokens_(spec_.vocab.size() + spec_.added.size()) {
  const auto letters = letters_of_bytes();
  std::unordered_map<std::string, char> byte_of;
  for (unsigned byte = 0; byte < 256; ++byte) {
    byte_of[letters[byte]] = static_cast<char>(byte);
    const auto found = spec_.vocab.find(letters[byte]);
    if (found != spec_.vocab.end()) id_of_byte_[byte] = found->second;
  }
  for (const auto& [token, id] : spec_.vocab) {
    const auto bytes = bytes_of_letters(token, byte_of);
    set_text(id, bytes.value_or(token));
    if (bytes && spec_.ignore_merges) id_of_bytes_[*bytes] = id;
  }
  for (const auto& [left, right] : spec_.merges) {
    const auto left_id = spec_.vocab.find(left);
    const auto right_id = spec_.vocab.find(right);
    const auto merged = spec_.vocab.find(left + right);
    if (left_id == spec_.vocab.end() || right_id == spec_.vocab.end() ||
        merged == spec_.vocab.end()) {
      throw Error(ErrorKind::kFormat, cat(file_, ": the merge of \"", left, "\" and \"", right,
                                          "\" is not in the vocabulary"));
    }
    merges_.add(left_id->second, right_id->second, merged->second);
  }
  for (const AddedToken& token : spec_.added) {
    set_text(token.id, token.content);
    (token.normalized ? normalized_added_ : raw_added_).add(token);
  }
  spec_.vocab.clear();
  spec_.merges.clear();
}

void ByteBpe::set_text(uint32_t id, const std::string& text) {
  // Maximum number of unused ids. A valid file has few, and an invalid file with a huge id must not
  // cause a huge allocation.
  constexpr size_t kMostGaps = 1 << 20;
  if (id >= tokens_ + kMostGaps) {
    throw Error(ErrorKind::kFormat, cat(file_, ": the id ", id, " is too large for a tokenizer of ",
                                        tokens_, " tokens"));
  }
  if (id >= text_of_id_.size()) text_of_id_.resize(id + 1);
  text_of_id_[id] = text;
}

template <typename Rest>
void ByteBpe::cut(const AddedTokens& tokens, std::string_view text, std::vector<uint32_t>& out,
                  const Rest& rest) {
  size_t at = 0;
  while (const auto found = tokens.find(text, at)) {
    if (found->begin > at) rest(text.substr(at, found->begin - at));
    out.push_back(found->id);
    at = found->end;
  }
  if (at < text.size()) rest(text.substr(at));
}

void ByteBpe::append_tokens(std::string_view text, std::vector<uint32_t>& out) const {
  const std::string valid = valid_utf8(text);
  cut(raw_added_, valid, out, [&](std::string_view part) {
    const std::string normal = spec_.normalize_nfc ? normalize_nfc(part) : std::string(part);
    cut(normalized_added_, normal, out, [&](std::string_view plain) { append_plain(plain, out); });
  });
}

void ByteBpe::append_plain(std::string_view text, std::vector<uint32_t>& out) const {
  if (spec_.add_prefix_space && !starts_with(text, " ")) {
    append_pieces(cat(" ", text), 0, out);
  } else {
    append_pieces(text, 0, out);
  }
}

void ByteBpe::append_pieces(std::string_view text, size_t step, std::vector<uint32_t>& out) const {
  if (text.empty()) return;
  if (step == spec_.splits.size()) return append_piece(text, out);
  const SplitStep& split = spec_.splits[step];
  size_t at = 0;
  const auto rest = [&](size_t end) {
    if (split.keep_rest) append_pieces(text.substr(at, end - at), step + 1, out);
  };
  split.pattern.for_each_match(text, [&](size_t begin, size_t end) {
    rest(begin);
    if (split.keep_matches) append_pieces(text.substr(begin, end - begin), step + 1, out);
    at = end;
  });
  rest(text.size());
}

void ByteBpe::append_piece(std::string_view piece, std::vector<uint32_t>& out) const {
  if (spec_.ignore_merges) {
    const auto whole = id_of_bytes_.find(std::string(piece));
    if (whole != id_of_bytes_.end()) return out.push_back(whole->second);
  }
  std::vector<uint32_t> ids;
  for (const char c : piece) {
    // A byte missing from the vocabulary is skipped, as in Hugging Face.
    if (const auto& id = id_of_byte_[static_cast<unsigned char>(c)]) ids.push_back(*id);
  }
  merges_.apply(ids);
  out.insert(out.end(), ids.begin(), ids.end());
}

}  // namespace

std::unique_ptr<Tokenizer> parse_byte_bpe(std::string_view text, const std::string& file) {
  return std::make_unique<ByteBpe>(parse_tokenizer_json(text, file), file);
}

std::unique_ptr<Tokenizer> load_byte_bpe(const std::filesystem::path& path) {
  const std::filesystem::path file =
      std::filesystem::is_directory(path) ? path / "tokenizer.json" : path;
  return parse_byte_bpe(read_file(file), file.string());
}

}  // namespace am::data
