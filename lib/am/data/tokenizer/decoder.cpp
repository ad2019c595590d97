#include "am/data/tokenizer/decoder.h"

#include <utility>

#include "am/base/text.h"
#include "am/data/tokenizer/token_model.h"

namespace am::data {
namespace {

void replace_all(std::string& text, std::string_view old, std::string_view replacement) {
  for (size_t at = text.find(old); at != text.npos && !old.empty();
       at = text.find(old, at + replacement.size())) {
    text.replace(at, old.size(), replacement);
  }
}

// A stage that changes each token independently of the others.
class TokenStage : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) apply_alone(token);
  }
};

class ByteLevelDecoder : public TokenStage {
 public:
  void apply_alone(std::string& token) const override {
    std::string bytes;
    if (bytes_of_letters(token, bytes)) token = std::move(bytes);
  }
};

class FuseDecoder : public Decoder {
 public:
  explicit FuseDecoder(bool checks_utf8, std::string_view separator = {})
      : checks_utf8_(checks_utf8), separator_(separator) {}
  void apply(std::vector<std::string>& tokens) const override {
    std::string all = join(tokens, separator_);
    tokens.assign(1, checks_utf8_ ? valid_utf8(all) : std::move(all));
  }

 private:
  bool checks_utf8_;
  std::string separator_;
};

class ByteFallbackDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto add_bytes = [&] {
      if (is_utf8(bytes)) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), std::string(kReplacement));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_of_token(token)) {
        bytes += *byte;
      } else {
        add_bytes();
        out.push_back(std::move(token));
      }
    }
    add_bytes();
    tokens = std::move(out);
  }
  void apply_alone(std::string& token) const override {
    if (const auto byte = byte_of_token(token)) token.assign(1, *byte);
  }
};

class ReplaceDecoder : public TokenStage {
 public:
  ReplaceDecoder(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply_alone(std::string& token) const override {
    if (!is_utf8(token)) return;  // the token has an incomplete character
    std::string out;
    size_t copied = 0;
    for_each_match(pattern_, token, [&](size_t begin, size_t end) {
      out.append(token, copied, begin - copied) += content_;
      copied = end;
    });
    out.append(token, copied);
    token = std::move(out);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string content, size_t left, size_t right)
      : content_(std::move(content)), left_(left), right_(right) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (size_t i = 0; i < left_ && starts_with(rest, content_); ++i) {
        rest.remove_prefix(content_.size());
      }
      for (size_t i = 0; i < right_ && ends_with(rest, content_); ++i) {
        rest.remove_suffix(content_.size());
      }
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  size_t left_;
  size_t right_;
};

class MetaspaceDecoder : public Decoder {
 public:
  MetaspaceDecoder(std::string replacement, bool drops_first)
      : replacement_(std::move(replacement)), drops_first_(drops_first) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], replacement_, i == 0 && drops_first_ ? "" : " ");
    }
  }
  void apply_alone(std::string& token) const override { replace_all(token, replacement_, " "); }

 private:
  std::string replacement_;
  bool drops_first_;
};

class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && starts_with(token, prefix_)) {
        token.erase(0, prefix_.size());
      } else if (i > 0) {
        token.insert(0, " ");
      }
      if (cleanup_) clean(token);
    }
  }
  void apply_alone(std::string& token) const override {
    if (starts_with(token, prefix_)) token.erase(0, prefix_.size());
  }

 private:
  static void clean(std::string& text) {
    static constexpr std::pair<const char*, const char*> kRules[] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [old, replacement] : kRules) replace_all(text, old, replacement);
  }

  std::string prefix_;
  bool cleanup_;
};

class SuffixDecoder : public Decoder {
 public:
  explicit SuffixDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    }
  }
  void apply_alone(std::string& token) const override { replace_all(token, suffix_, " "); }

 private:
  std::string suffix_;
};

class SentencePieceDecoder : public Decoder {
 public:
  explicit SentencePieceDecoder(SentencePieceDecoding decoding) : decoding_(std::move(decoding)) {}

  void apply(std::vector<std::string>& tokens) const override {
    std::string text;
    std::string bytes;
    bool at_begin = true;      // whether the next space symbol may be the prefix that encoding adds
    bool prefix_seen = false;  // whether this prefix was removed from the previous token
    for (const std::string& token : tokens) {
      const auto byte = decoding_.byte_fallback ? byte_of_token(token) : std::nullopt;
      if (byte) {
        bytes += *byte;
        continue;
      }
      text += each_valid_utf8(bytes);
      bytes.clear();
      if (prefix_seen || !text.empty()) at_begin = false;
      prefix_seen = false;
      if (token == decoding_.unknown) {
        text += decoding_.unknown_surface;
        continue;
      }
      std::string_view rest = token;
      const SentencePieceSpaces& spaces = decoding_.spaces;
      if (at_begin && (spaces.add_dummy_prefix || spaces.remove_extra_whitespaces) &&
          starts_with(rest, kSpaceSymbol)) {
        rest.remove_prefix(kSpaceSymbol.size());
        // With remove_extra_whitespaces, the leading space symbols of the next tokens are removed,
        // too, as long as `text` is empty.
        prefix_seen = !spaces.remove_extra_whitespaces;
      }
      std::string surface(rest);
      replace_all(surface, kSpaceSymbol, " ");
      text += surface;
    }
    text += each_valid_utf8(bytes);
    tokens.clear();
    tokens.push_back(std::move(text));
  }
  void apply_alone(std::string& token) const override {
    if (const auto byte = decoding_.byte_fallback ? byte_of_token(token) : std::nullopt) {
      token.assign(1, *byte);
    } else if (token == decoding_.unknown) {
      token = decoding_.unknown_surface;
    } else {
      replace_all(token, kSpaceSymbol, " ");
    }
  }

 private:
  // Returns `bytes` with each byte that does not belong to a valid character replaced by U+FFFD.
  static std::string each_valid_utf8(std::string_view bytes) {
    std::string out;
    while (!bytes.empty()) {
      const size_t length = utf8_length(bytes);
      out += length == 0 ? kReplacement : bytes.substr(0, length);
      bytes.remove_prefix(length == 0 ? 1 : length);
    }
    return out;
  }

  SentencePieceDecoding decoding_;
};

}  // namespace

DecoderStage byte_level_decoder() { return std::make_unique<ByteLevelDecoder>(); }
DecoderStage utf8_decoder() { return std::make_unique<FuseDecoder>(/*checks_utf8=*/true); }
DecoderStage byte_fallback_decoder() { return std::make_unique<ByteFallbackDecoder>(); }
DecoderStage replace_decoder(Pattern pattern, std::string content) {
  return std::make_unique<ReplaceDecoder>(std::move(pattern), std::move(content));
}
DecoderStage fuse_decoder() { return std::make_unique<FuseDecoder>(/*checks_utf8=*/false); }
DecoderStage strip_decoder(std::string content, size_t left, size_t right) {
  return std::make_unique<StripDecoder>(std::move(content), left, right);
}
DecoderStage metaspace_decoder(std::string replacement, bool drops_first) {
  return std::make_unique<MetaspaceDecoder>(std::move(replacement), drops_first);
}
DecoderStage word_piece_decoder(std::string prefix, bool cleanup) {
  return std::make_unique<WordPieceDecoder>(std::move(prefix), cleanup);
}
DecoderStage suffix_decoder(std::string suffix) {
  return std::make_unique<SuffixDecoder>(std::move(suffix));
}
DecoderStage joining_decoder() { return std::make_unique<FuseDecoder>(false, " "); }
DecoderStage sentencepiece_decoder(SentencePieceDecoding decoding) {
  return std::make_unique<SentencePieceDecoder>(std::move(decoding));
}

}  // namespace am::data
