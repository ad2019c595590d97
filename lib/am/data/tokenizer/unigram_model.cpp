#include "am/data/tokenizer/unigram_model.h"

#include <algorithm>

#include "am/data/tokenizer/trie.h"
#include "am/data/tokenizer/unicode.h"

namespace am::data {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr uint32_t kUnknown =
    UINT32_MAX;  // marks an unknown character, in place of an index in UnigramSpec::tokens

// The last token in the best segmentation of the text before a byte offset.
template <typename Score>
struct Node {
  Score score = 0;
  uint32_t length = 0;  // length of the token in bytes; 0: no token ends at this offset
  uint32_t token = kUnknown;
};

// A token of the best segmentation, and its bytes [begin, end) in the text.
struct Step {
  uint32_t token;
  size_t begin;
  size_t end;
};

class Unigram : public TokenModel {
 public:
  explicit Unigram(UnigramSpec spec) : spec_(std::move(spec)) {
    for (uint32_t i = 0; i < spec_.tokens.size(); ++i) {
      if (!spec_.tokens[i].text.empty()) trie_.add(spec_.tokens[i].text, i);
    }
  }

  void append(std::string_view piece, std::vector<uint32_t>& ids,
              std::vector<ByteRange>* ranges) const override {
    if (spec_.kind == UnigramSpec::Kind::kTokenizers) {
      write(piece, best_path<double>(piece), ids, ranges);
    } else {
      write(piece, best_path<float>(piece), ids, ranges);
    }
  }

 private:
  // Returns the tokens of the best segmentation, in order.
  template <typename Score>
  std::vector<Step> best_path(std::string_view piece) const {
    const auto unknown_score = static_cast<Score>(static_cast<Score>(spec_.min_score) -
                                                  static_cast<Score>(kUnknownPenalty));
    std::vector<Node<Score>> nodes(piece.size() + 1);
    for (size_t begin = 0; begin < piece.size();) {
      const Score so_far = nodes[begin].score;
      size_t character_end = begin;
      next_character(piece, character_end);
      bool has_character = false;
      const auto consider = [&](size_t end, uint32_t token, Score score) {
        const Score candidate = score + so_far;
        Node<Score>& node = nodes[end];
        if (node.length == 0 || candidate > node.score) {
          node = {candidate, static_cast<uint32_t>(end - begin), token};
        }
        has_character = has_character || end == character_end;
      };
      trie_.for_each_prefix(piece.substr(begin), [&](size_t length, uint32_t at) {
        const UnigramToken& token = spec_.tokens[at];
        const auto score = token.user_defined
                               ? static_cast<double>(static_cast<float>(length) *
                                                     static_cast<float>(spec_.max_score)) -
                                     0.1
                               : token.score;
        consider(begin + length, at, static_cast<Score>(score));
      });
      if (!has_character) consider(character_end, kUnknown, unknown_score);
      begin = character_end;
    }
    std::vector<Step> path;
    for (size_t end = piece.size(); end > 0; end = path.back().begin) {
      path.push_back({nodes[end].token, end - nodes[end].length, end});
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  // Appends the ids of a path, and the ranges of its tokens if `ranges` is not null. Neighbouring
  // unknown characters become byte tokens or, without byte fallback, one token for unknown text.
  void write(std::string_view piece, const std::vector<Step>& path, std::vector<uint32_t>& ids,
             std::vector<ByteRange>* ranges) const {
    const auto add = [&](uint32_t id, size_t begin, size_t end) {
      ids.push_back(id);
      if (ranges != nullptr) ranges->push_back({begin, end});
    };
    for (size_t i = 0; i < path.size();) {
      const size_t begin = path[i].begin;
      if (!is_unknown(path[i].token)) {
        add(spec_.tokens[path[i].token].id, begin, path[i].end);
        ++i;
        continue;
      }
      size_t end = begin;
      for (; i < path.size() && is_unknown(path[i].token); ++i) end = path[i].end;
      const std::string_view text = piece.substr(begin, end - begin);
      // `tokenizers` first looks up all neighbouring unknown characters as one token, and uses this
      // token if the vocabulary contains it.
      const Trie::Match match = trie_.longest(text);
      if (match.length == text.size() && spec_.kind == UnigramSpec::Kind::kTokenizers) {
        add(spec_.tokens[match.value].id, begin, end);
      } else if (spec_.unknown.has_bytes(text)) {
        for (const char byte : text) {
          add(*spec_.unknown.of_byte[static_cast<unsigned char>(byte)], begin, end);
        }
      } else {
        add(spec_.unknown.required_id(text), begin, end);
      }
    }
  }

  // Whether the token of a step is kUnknown, or the vocabulary's token for unknown text itself.
  bool is_unknown(uint32_t token) const {
    return token == kUnknown || (spec_.unknown.id && spec_.tokens[token].id == *spec_.unknown.id);
  }

  UnigramSpec spec_;
  Trie trie_;
};

}  // namespace

std::unique_ptr<const TokenModel> unigram_model(UnigramSpec spec) {
  return std::make_unique<Unigram>(std::move(spec));
}

}  // namespace am::data
