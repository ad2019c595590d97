#include "am/data/tokenizer/bpe_model.h"

#include <algorithm>
#include <array>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::data {
namespace {

constexpr char32_t kSpaceCharacter = 0x2581;  // code point of kSpaceSymbol
constexpr uint32_t kNoId = UINT32_MAX;

class Bpe : public TokenModel {
 public:
  explicit Bpe(BpeSpec spec) : spec_(std::move(spec)), first_part_(kNoId) {
    of_byte_.fill(kNoId);
    for (const auto* vocabulary : {&spec_.parts, &spec_.vocabulary}) {
      for (const auto& [token, id] : *vocabulary) {
        size_t length = token.empty() ? 0 : 1;
        if (spec_.bytes) {
          if (token.size() == 1) of_byte_[static_cast<unsigned char>(token[0])] = id;
          continue;
        }
        const char32_t c = token.empty() ? 0 : next_character(token, length = 0);
        if (length == token.size() && length > 0) of_character_[c] = id;
      }
    }
    for (const auto& [token, id] : spec_.parts) first_part_ = std::min(first_part_, id);
  }

  void append(std::string_view piece, std::vector<uint32_t>& ids,
              std::vector<ByteRange>* ranges) const override {
    if (spec_.whole_pieces) {
      if (const auto id = find_id(spec_.vocabulary, piece)) {
        ids.push_back(*id);
        if (ranges != nullptr) ranges->push_back({0, piece.size()});
        return;
      }
    }
    thread_local std::vector<Symbol> word;
    word.clear();
    Output out{piece, ids, ranges};
    if (!spec_.bytes || !add_bytes(piece, word)) {
      word.clear();
      add_symbols(piece, word, out);
    }
    finish(word, out);
  }

 private:
  struct Output {
    std::string_view piece;
    std::vector<uint32_t>& ids;
    std::vector<ByteRange>* ranges;
    size_t at = 0;               // offset in the piece at which the last token ends
    bool after_unknown = false;  // whether unknown text that follows joins the last token
  };

  // Adds the symbols of all bytes of a piece to `word`. Returns false if a byte has no symbol.
  bool add_bytes(std::string_view piece, std::vector<Symbol>& word) const {
    for (const char c : piece) {
      const uint32_t id = of_byte_[static_cast<unsigned char>(c)];
      if (id == kNoId) return false;
      word.push_back({id, 1});
    }
    return true;
  }

  // Adds the symbols of a piece to `word`. Calls finish() at the places in the piece that no merge
  // can cross.
  void add_symbols(std::string_view piece, std::vector<Symbol>& word, Output& out) const {
    uint32_t unknown_size = 0;  // bytes of unknown characters that are not added yet
    const auto add_unknown = [&] {
      if (unknown_size > 0) word.push_back({spec_.unknown.id.value_or(kNoId), unknown_size});
      unknown_size = 0;
    };
    bool after_space = true;
    for (size_t at = 0; at < piece.size();) {
      if (spec_.fixed != nullptr) {
        if (const Trie::Match fixed = spec_.fixed->longest(piece.substr(at)); fixed.length > 0) {
          add_unknown();
          finish(word, out);
          word.push_back({fixed.value, static_cast<uint32_t>(fixed.length)});
          finish(word, out);
          at += fixed.length;
          continue;
        }
      }
      const size_t begin = at;
      const char32_t c =
          spec_.bytes ? static_cast<unsigned char>(piece[at++]) : next_character(piece, at);
      const auto size = static_cast<uint32_t>(at - begin);
      if (spec_.words_begin_with_space) {
        if (c == kSpaceCharacter && !after_space) {
          add_unknown();
          finish(word, out);
        }
        after_space = c == kSpaceCharacter;
      }
      const std::string_view letter = piece.substr(begin, size);
      const uint32_t id = id_of(c, letter, begin == 0, at == piece.size());
      if (id != kNoId) {
        add_unknown();
        word.push_back({id, size});
      } else if (spec_.unknown.has_bytes(letter)) {
        for (const char byte : letter) {
          word.push_back({*spec_.unknown.of_byte[static_cast<unsigned char>(byte)], 1});
        }
      } else if (spec_.unknown.id || spec_.unknown_is_fatal) {
        spec_.unknown.required_id(letter);
        if (!spec_.fuse_unknown) add_unknown();
        unknown_size += size;
      }
    }
    add_unknown();
  }

  uint32_t id_of(char32_t c, std::string_view letter, bool first, bool last) const {
    if (spec_.bytes) return of_byte_[c];
    const bool prefixed = !first && !spec_.subword_prefix.empty();
    const bool suffixed = last && !spec_.word_suffix.empty();
    if (prefixed || suffixed) {
      return find_id(spec_.vocabulary, cat(prefixed ? spec_.subword_prefix : "", letter,
                                           suffixed ? spec_.word_suffix : ""))
          .value_or(kNoId);
    }
    const uint32_t* id = of_character_.find(c);
    return id == nullptr ? kNoId : *id;
  }

  // Merges `word`, appends its tokens to the output, and clears `word`.
  void finish(std::vector<Symbol>& word, Output& out) const {
    spec_.merges.apply(word);
    for (const Symbol& symbol : word) {
      const bool is_part = symbol.id >= first_part_;
      const std::string_view text = out.piece.substr(out.at, symbol.size);
      if (is_part && spec_.unknown.has_bytes(text)) {
        for (const char byte : text) {
          write(*spec_.unknown.of_byte[static_cast<unsigned char>(byte)], 1, out);
        }
      } else {
        write(is_part ? spec_.unknown.required_id(text) : symbol.id, symbol.size, out);
      }
    }
    word.clear();
  }

  void write(uint32_t id, uint32_t size, Output& out) const {
    const bool unknown = spec_.fuse_unknown && id == spec_.unknown.id;
    if (unknown && out.after_unknown) {
      if (out.ranges != nullptr) out.ranges->back().end += size;
    } else {
      out.ids.push_back(id);
      if (out.ranges != nullptr) out.ranges->push_back({out.at, out.at + size});
    }
    out.after_unknown = unknown;
    out.at += size;
  }

  BpeSpec spec_;
  std::array<uint32_t, 256> of_byte_;
  FlatTable<uint32_t> of_character_;
  uint32_t first_part_;
};

}  // namespace

std::unique_ptr<const TokenModel> bpe_model(BpeSpec spec) {
  return std::make_unique<Bpe>(std::move(spec));
}

bool has_inner_space(std::string_view token) {
  while (starts_with(token, kSpaceSymbol)) token.remove_prefix(kSpaceSymbol.size());
  return token.find(kSpaceSymbol) != token.npos;
}

void merge_by_rank(BpeSpec& spec, const std::vector<std::pair<std::string, uint32_t>>& ranks,
                   uint32_t next_part) {
  // Returns the id of a part of a token. Unless spec.bytes is set, a single character that is not a
  // token gets an id in spec.parts. Returns nullopt for any other part that is not a token.
  const auto part_id = [&](std::string_view part) -> std::optional<uint32_t> {
    if (const auto id = find_id(spec.vocabulary, part)) return id;
    size_t length = 0;
    if (spec.bytes || (next_character(part, length), length != part.size())) return std::nullopt;
    const auto [found, added] = spec.parts.try_emplace(std::string(part), next_part);
    if (added) ++next_part;
    return found->second;
  };
  spec.words_begin_with_space = !spec.bytes;
  for (const auto& [token, rank] : ranks) {
    const auto merged = find_id(spec.vocabulary, token);
    if (!merged) continue;
    // The work for a token grows with the square of its length. Published vocabularies contain
    // tokens of up to 128 bytes.
    constexpr size_t kLongestToken = 4096;
    if (token.size() > kLongestToken) {
      throw Error(ErrorKind::kFormat, cat("the token ", *merged, " has ", token.size(),
                                          " bytes, more than ", kLongestToken));
    }
    if (has_inner_space(token)) spec.words_begin_with_space = false;
    for (size_t at = 0; at < token.size();) {
      if (spec.bytes) {
        ++at;
      } else {
        next_character(token, at);
      }
      if (at == token.size()) break;
      const std::string_view all = token;
      const auto left = part_id(all.substr(0, at));
      const auto right = part_id(all.substr(at));
      if (left && right) spec.merges.add(*left, *right, *merged, rank);
    }
  }
}

}  // namespace am::data
