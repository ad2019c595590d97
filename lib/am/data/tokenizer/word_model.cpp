#include "am/data/tokenizer/word_model.h"

#include <algorithm>

#include "am/base/text.h"

namespace am::data {
namespace {

class Words : public TokenModel {
 public:
  explicit Words(WordSpec spec) : spec_(std::move(spec)) {
    for (const auto& [token, id] : spec_.vocabulary) longest_ = std::max(longest_, token.size());
  }

  void append(std::string_view piece, std::vector<uint32_t>& ids,
              std::vector<ByteRange>* ranges) const override {
    const size_t first = ids.size();
    const size_t first_range = ranges == nullptr ? 0 : ranges->size();
    if (!append_known(piece, ids, ranges)) {
      ids.resize(first);
      if (ranges != nullptr) ranges->resize(first_range);
      const UnknownText unknown{spec_.unknown, {}};
      ids.push_back(unknown.required_id(piece));
      if (ranges != nullptr) ranges->push_back({0, piece.size()});
    }
  }

 private:
  // Appends the longest matching tokens from left to right. Returns false if no token matches the
  // rest of the piece, or if a WordPiece piece has more characters than WordSpec::longest_word. In
  // that case, the caller removes what was appended.
  bool append_known(std::string_view piece, std::vector<uint32_t>& ids,
                    std::vector<ByteRange>* ranges) const {
    size_t characters = 0;
    for (size_t at = 0; at < piece.size(); ++characters) next_character(piece, at);
    if (!spec_.whole_pieces && characters > spec_.longest_word) return false;
    for (size_t begin = 0; begin < piece.size();) {
      size_t end = spec_.whole_pieces ? piece.size() : std::min(piece.size(), begin + longest_);
      std::optional<uint32_t> id;
      for (; end > begin; --end) {
        const std::string_view part = piece.substr(begin, end - begin);
        id = begin == 0 ? find_id(spec_.vocabulary, part)
                        : find_id(spec_.vocabulary, cat(spec_.subword_prefix, part));
        if (id || spec_.whole_pieces) break;
      }
      if (!id) return false;
      ids.push_back(*id);
      if (ranges != nullptr) ranges->push_back({begin, end});
      begin = end;
    }
    return true;
  }

  WordSpec spec_;
  size_t longest_ = 0;
};

}  // namespace

std::unique_ptr<const TokenModel> word_model(WordSpec spec) {
  return std::make_unique<Words>(std::move(spec));
}

}  // namespace am::data
