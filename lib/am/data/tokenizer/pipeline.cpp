#include "am/data/tokenizer/pipeline.h"

#include <algorithm>
#include <set>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::data {
namespace {

// Numbers of characters of white space at the ends of a token.
struct Margins {
  size_t left = 0;
  size_t right = 0;
};

// The place of a token in the original text. `margins` is set only for added tokens, whose range
// may include white space that AddedToken::strip_left or strip_right removes. The margins of other
// tokens are computed from the tokens' bytes.
struct Place {
  ByteRange range;
  std::optional<Margins> margins;
};

// Collects the tokens of a text.
struct Collected {
  std::vector<uint32_t>& ids;
  std::vector<Place>* places = nullptr;  // null if the caller wants only ids
};

// Converts pieces to tokens with the model, and collects the tokens.
class ModelSink : public PieceSink {
 public:
  ModelSink(const TokenModel& model, Collected& out) : model_(model), out_(out) {}
  void take(const Piece& piece) override {
    if (out_.places == nullptr) return model_.append(piece.text, out_.ids, nullptr);
    ranges_.clear();
    model_.append(piece.text, out_.ids, &ranges_);
    for (const ByteRange& range : ranges_) {
      const ByteRange* origin = piece.origin;
      out_.places->push_back({{origin[range.begin].begin, origin[range.end - 1].end}, {}});
    }
  }

 private:
  const TokenModel& model_;
  Collected& out_;
  std::vector<ByteRange> ranges_;
};

// Throws Error(kFormat) if stages have turned a text of `before` bytes into a much longer text of
// `now` bytes. A stage can double a text's length, so an invalid tokenizer file of a few hundred
// bytes could otherwise exhaust the memory.
void check_growth(size_t before, size_t now) {
  constexpr size_t kMostGrowth = 64;
  if (now / kMostGrowth <= before + 1024) return;
  throw Error(ErrorKind::kFormat, cat("the tokenizer lengthens a text of ", before, " bytes to ",
                                      now, " bytes, which is not supported"));
}

// Whether a special token at bytes [begin, end) of the original text is tokenised as ordinary text.
bool is_text(size_t begin, size_t end, const EncodeOptions& options) {
  if (options.split_special_tokens) return true;
  const auto offset =
      std::upper_bound(options.inside_text.begin(), options.inside_text.end(), begin);
  return offset != options.inside_text.end() && *offset < end;
}

class Pipeline : public Tokenizer {
 public:
  explicit Pipeline(Stages stages) : stages_(std::move(stages)) {
    for (const AddedToken& token : stages_.added) {
      std::string pattern = token.content;
      if (token.normalized) {
        TracedText text = trace(pattern, /*with_origins=*/false);
        normalize(text);
        pattern = std::move(text.text);
      }
      stages_.tokens.set(token.id, pattern);
      if (token.special) special_.insert(token.content);
      if (!pattern.empty()) (token.normalized ? normalized_ : raw_).add(token, pattern);
    }
  }

  void append_tokens(std::string_view text, const EncodeOptions& options,
                     std::vector<uint32_t>& out) const override {
    const PostProcessor& post = stages_.post;
    if (options.add_special_tokens) out.insert(out.end(), post.before.begin(), post.before.end());
    Collected collected{out};
    collect(trace(text, stages_.always_traced), options, collected);
    if (options.add_special_tokens) out.insert(out.end(), post.after.begin(), post.after.end());
  }

  std::vector<TokenPlace> places(std::string_view text,
                                 const EncodeOptions& options) const override {
    std::vector<uint32_t> ids;
    std::vector<Place> found;
    Collected collected{ids, &found};
    collect(trace(text, /*with_origins=*/true), options, collected);
    for (const bool add_prefix_space : stages_.post.trims) trim(text, ids, found, add_prefix_space);
    std::vector<TokenPlace> out;
    out.reserve(ids.size());
    const auto add_special = [&](const std::vector<uint32_t>& special) {
      if (!options.add_special_tokens) return;
      for (const uint32_t id : special) out.push_back({id, 0, 0});
    };
    add_special(stages_.post.before);
    for (size_t i = 0; i < ids.size(); ++i) {
      out.push_back({ids[i], found[i].range.begin, found[i].range.end});
    }
    add_special(stages_.post.after);
    return out;
  }

  std::string text(std::span<const int64_t> ids, bool skip_special_tokens) const override {
    std::vector<std::string> tokens;
    for (const int64_t id : ids) {
      const std::string& token = stages_.tokens.at(id);
      if (token.empty() || (skip_special_tokens && special_.contains(token))) continue;
      tokens.push_back(token);
    }
    if (tokens.empty()) return {};
    const auto size = [&] {
      size_t bytes = 0;
      for (const std::string& token : tokens) bytes += token.size();
      return bytes;
    };
    const size_t before = size();
    for (const DecoderStage& stage : stages_.decoders) {
      stage->apply(tokens);
      check_growth(before, size());
    }
    return join(tokens, "");
  }

  std::string token(int64_t id) const override { return stages_.tokens.at(id); }

  std::string token_bytes(int64_t id) const override {
    std::string token = stages_.tokens.at(id);
    if (special_.contains(token)) return token;
    const size_t before = token.size();
    for (const DecoderStage& stage : stages_.decoders) {
      stage->apply_alone(token);
      check_growth(before, token.size());
    }
    return token;
  }

  std::optional<int64_t> token_id(std::string_view token) const override {
    if (token.empty()) return std::nullopt;
    for (const AddedToken& each : stages_.added) {
      if (each.content == token) return each.id;
    }
    for (size_t id = 0; id < stages_.tokens.size(); ++id) {
      if (stages_.tokens.at(static_cast<int64_t>(id)) == token) return static_cast<int64_t>(id);
    }
    return std::nullopt;
  }

  std::vector<std::string> special_tokens() const override {
    std::vector<const AddedToken*> special;
    for (const AddedToken& token : stages_.added) {
      if (token.special) special.push_back(&token);
    }
    std::stable_sort(special.begin(), special.end(),
                     [](const auto* a, const auto* b) { return a->id < b->id; });
    std::vector<std::string> names;
    for (const AddedToken* token : special) names.push_back(token->content);
    return names;
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(stages_.tokens.size()); }
  std::string name() const override { return stages_.tokens.file(); }

 private:
  void normalize(TracedText& text) const {
    const size_t before = text.text.size();
    for (const NormalizerStage& stage : stages_.normalizers) {
      stage->apply(text);
      check_growth(before, text.text.size());
    }
  }

  void collect(const TracedText& text, const EncodeOptions& options, Collected& out) const {
    ModelSink sink(*stages_.model, out);
    const bool asks = options.split_special_tokens || !options.inside_text.empty();
    const auto add = [&](const Piece& piece, uint32_t id) {
      out.ids.push_back(id);
      if (out.places == nullptr) return;
      const std::string_view own = piece.text;
      const Margins margins = {characters(own.substr(0, leading_space(own))),
                               characters(own.substr(own.size() - trailing_space(own)))};
      out.places->push_back({{piece.origin[0].begin, piece.origin[own.size() - 1].end}, margins});
    };
    // Cuts normalized text at the added tokens with AddedToken::normalized.
    const auto cut_normalized = [&](const Piece& piece) {
      const auto origin_is_text = [&](size_t begin, size_t end) {
        return piece.origin == nullptr
                   ? options.split_special_tokens
                   : is_text(piece.origin[begin].begin, piece.origin[end - 1].end, options);
      };
      normalized_.cut(
          piece.text, asks ? IsText(origin_is_text) : IsText(),
          [&](size_t begin, size_t end) {
            run(stages_.pre_tokenizers, piece.part(begin, end), sink);
          },
          [&](uint32_t id, size_t begin, size_t end) { add(piece.part(begin, end), id); });
    };
    const Piece all = whole(text, 0);
    const auto original_is_text = [&](size_t begin, size_t end) {
      return is_text(begin, end, options);
    };
    raw_.cut(
        all.text, asks ? IsText(original_is_text) : IsText(),
        [&](size_t begin, size_t end) {
          const Piece part = all.part(begin, end);
          if (stages_.normalizers.empty()) return cut_normalized(part);
          TracedText normal = copy_of(part);
          normalize(normal);
          cut_normalized(whole(normal, part.begin));
        },
        [&](uint32_t id, size_t begin, size_t end) { add(all.part(begin, end), id); });
  }

  // Excludes the white space at the ends of each token from the token's range in `text`. If
  // `add_prefix_space`, does not exclude a single space at the beginning of the first token: this
  // space may be the added prefix, which `text` does not contain.
  void trim(std::string_view text, const std::vector<uint32_t>& ids, std::vector<Place>& places,
            bool add_prefix_space) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      ByteRange& range = places[i].range;
      Margins margins = places[i].margins.value_or(Margins());
      if (!places[i].margins) {
        const std::string token = token_bytes(ids[i]);
        margins = {spaces(token.begin(), token.end()), spaces(token.rbegin(), token.rend())};
      }
      const bool first = i == 0 || range.begin == 0;
      if (first && add_prefix_space && margins.left == 1) margins.left = 0;
      for (; margins.left > 0 && range.begin < range.end; --margins.left) {
        range.begin += utf8_step(text.substr(range.begin)).length;
      }
      for (; margins.right > 0 && range.end > range.begin; --margins.right) {
        do {
          --range.end;
        } while (range.end > range.begin &&
                 (static_cast<unsigned char>(text[range.end]) & 0xC0) == 0x80);
      }
    }
  }

  template <typename Iterator>
  static size_t spaces(Iterator begin, Iterator end) {
    return static_cast<size_t>(std::find_if(begin, end, [](char c) { return c != ' '; }) - begin);
  }

  static size_t characters(std::string_view text) {
    size_t count = 0;
    for (size_t at = 0; at < text.size(); ++count) next_character(text, at);
    return count;
  }

  Stages stages_;
  AddedTokens raw_;
  AddedTokens normalized_;
  std::set<std::string, std::less<>> special_;
};

}  // namespace

void TokenTable::set(uint32_t id, std::string_view token) {
  // Maximum number of unused ids. A valid file leaves few ids unused. The limit prevents a huge
  // allocation for an invalid file that contains a huge id.
  constexpr size_t kMostGaps = 1 << 20;
  if (id >= tokens_ + kMostGaps) {
    throw Error(ErrorKind::kFormat, cat(file_, ": the id ", id, " is too large for a tokenizer of ",
                                        tokens_, " tokens"));
  }
  if (id >= by_id_.size()) by_id_.resize(size_t{id} + 1);
  by_id_[id] = token;
}

const std::string& TokenTable::at(int64_t id) const {
  static const std::string none;
  return id >= 0 && static_cast<size_t>(id) < by_id_.size() ? by_id_[static_cast<size_t>(id)]
                                                            : none;
}

std::unique_ptr<Tokenizer> make_pipeline(Stages stages) {
  return std::make_unique<Pipeline>(std::move(stages));
}

}  // namespace am::data
