#include "am/data/tokenizer/normalizer.h"

#include <array>
#include <utility>

#include "am/base/text.h"

namespace am::data {
namespace {

// A stage that changes each character independently of the others. `change` appends the character's
// replacement to `out`, or appends nothing to remove the character.
template <typename Change>
class CharacterStage : public Normalizer {
 public:
  explicit CharacterStage(Change change) : change_(change) {}
  void apply(TracedText& text) const override {
    TracedText out = text.empty_copy();
    out.text.reserve(text.text.size());
    std::string letters;
    for (size_t at = 0; at < text.text.size();) {
      const ByteRange from = text.origin_of(at);
      letters.clear();
      change_(next_character(text.text, at), letters);
      out.append(letters, from);
    }
    text = std::move(out);
  }

 private:
  Change change_;
};

template <typename Change>
NormalizerStage character_stage(Change change) {
  return std::make_unique<CharacterStage<Change>>(change);
}

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(TracedText& text) const override {
    if (text.text.empty()) return;
    TracedText out = text.empty_copy();
    out.append(prefix_, text.origin_of(0));
    out.append(text, 0, text.text.size());
    text = std::move(out);
  }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(TracedText& text) const override {
    TracedText out = text.empty_copy();
    size_t copied = 0;
    for_each_match(pattern_, text.text, [&](size_t begin, size_t end) {
      out.append(text, copied, begin);
      out.append(content_, end == 0 ? ByteRange() : text.origin_of(end - 1));
      copied = end;
    });
    if (copied == 0 && out.text.empty()) return;
    out.append(text, copied, text.text.size());
    text = std::move(out);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class ToNormalForm : public Normalizer {
 public:
  explicit ToNormalForm(NormalForm form) : form_(form) {}
  void apply(TracedText& text) const override {
    if (form_ == NormalForm::kC && !text.traced) {
      text.text = normalize_nfc(text.text);
    } else {
      text.change(normal_form(text.text, form_));
    }
  }

 private:
  NormalForm form_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(TracedText& text) const override {
    const size_t begin = left_ ? leading_space(text.text) : 0;
    const size_t end = text.text.size() - (right_ ? trailing_space(text.text) : 0);
    TracedText out = text.empty_copy();
    if (begin < end) out.append(text, begin, end);
    text = std::move(out);
  }

 private:
  bool left_;
  bool right_;
};

class CharsmapStage : public Normalizer {
 public:
  explicit CharsmapStage(Charsmap map) : map_(std::move(map)) {}
  void apply(TracedText& text) const override {
    std::vector<ChangedCharacter> changed;
    const std::string_view all = text.text;
    for (size_t at = 0; at < all.size();) {
      const size_t length = grapheme_length(all.substr(at));
      // The library `tokenizers` looks up a grapheme cluster of fewer than 6 bytes as a whole: the
      // cluster becomes the replacement of its shortest prefix that is a key of the map.
      if (length >= 6 || !replace(all.substr(at, length), changed)) {
        for (size_t begin = at; begin < at + length;) {
          size_t end = begin;
          const char32_t c = next_character(all, end);
          if (!replace(all.substr(begin, end - begin), changed)) changed.push_back({c, 0});
          begin = end;
        }
      }
      at += length;
    }
    text.change(changed);
  }

 private:
  // Appends the replacement of the shortest key with which `old` begins. Returns false if no key
  // matches.
  bool replace(std::string_view old, std::vector<ChangedCharacter>& out) const {
    bool found = false;
    std::string_view replacement;
    map_.for_each_prefix(old, [&](size_t, std::string_view text) {
      if (!found) replacement = text;
      found = true;
    });
    if (!found) return false;
    int left = 0;  // number of characters of `old` that are not replaced yet
    for (size_t at = 0; at < old.size(); ++left) next_character(old, at);
    for (size_t at = 0; at < replacement.size(); --left) {
      out.push_back({next_character(replacement, at), left > 0 ? 0 : 1});
    }
    if (left > 0 && !out.empty()) out.back().change -= left;
    return true;
  }

  Charsmap map_;
};

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<NormalizerStage> stages) : stages_(std::move(stages)) {}
  void apply(TracedText& text) const override {
    for (const NormalizerStage& stage : stages_) stage->apply(text);
  }

 private:
  std::vector<NormalizerStage> stages_;
};

class SentencePieceStage : public Normalizer {
 public:
  SentencePieceStage(std::shared_ptr<const Charsmap> map, std::shared_ptr<const Trie> fixed,
                     SentencePieceSpaces spaces)
      : map_(std::move(map)), fixed_(std::move(fixed)), spaces_(spaces) {}

  void apply(TracedText& text) const override {
    TracedText out = text.empty_copy();
    const std::string_view all = text.text;
    size_t at = 0;
    if (spaces_.remove_extra_whitespaces) {
      while (at < all.size()) {
        const Mapped next = map(all.substr(at));
        if (next.text != " ") break;
        at += next.consumed;
      }
    }
    if (at == all.size()) {
      text = std::move(out);
      return;
    }
    const std::string_view space = spaces_.escape_whitespaces ? kSpaceSymbol : " ";
    const size_t start = text.origin_of(at).begin;
    if (spaces_.add_dummy_prefix && !spaces_.treat_whitespace_as_suffix) {
      out.append(space, {start, start});
    }
    bool after_space = spaces_.remove_extra_whitespaces;
    while (at < all.size()) {
      Mapped next = map(all.substr(at));
      const ByteRange from = {text.origin_of(at).begin, text.origin_of(at + next.consumed - 1).end};
      while (after_space && starts_with(next.text, " ")) next.text.remove_prefix(1);
      for (const char& c : next.text) {
        if (c == ' ') {
          out.append(space, from);
        } else {
          out.append(std::string_view(&c, 1), from);
        }
      }
      if (!next.text.empty()) {
        after_space = spaces_.remove_extra_whitespaces && ends_with(next.text, " ");
      }
      at += next.consumed;
    }
    if (spaces_.remove_extra_whitespaces) {
      while (ends_with(out.text, space)) {
        out.text.resize(out.text.size() - space.size());
        if (out.traced) out.origin.resize(out.text.size());
      }
    }
    if (spaces_.add_dummy_prefix && spaces_.treat_whitespace_as_suffix) {
      const size_t end = text.origin_of(all.size() - 1).end;
      out.append(space, {end, end});
    }
    text = std::move(out);
  }

 private:
  struct Mapped {
    std::string_view text;
    size_t consumed;
  };

  // Maps the beginning of `text`. A key of fixed_ is mapped to itself, otherwise the longest
  // matching key of map_ to its replacement, otherwise one character to itself. `consumed`: bytes
  // of `text` that were mapped.
  Mapped map(std::string_view text) const {
    if (const Trie::Match match = fixed_->longest(text); match.length > 0) {
      return {text.substr(0, match.length), match.length};
    }
    Mapped longest = {{}, 0};
    if (map_ != nullptr) {
      map_->for_each_prefix(text, [&](size_t length, std::string_view replacement) {
        longest = {replacement, length};
      });
    }
    if (longest.consumed > 0) return longest;
    size_t length = 0;
    next_character(text, length);
    return {text.substr(0, length), length};
  }

  std::shared_ptr<const Charsmap> map_;
  std::shared_ptr<const Trie> fixed_;
  SentencePieceSpaces spaces_;
};

}  // namespace

NormalizerStage prepend_stage(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}

NormalizerStage replace_stage(Pattern pattern, std::string content) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}

NormalizerStage normal_form_stage(NormalForm form) { return std::make_unique<ToNormalForm>(form); }

NormalizerStage lower_case_stage() {
  return character_stage([](char32_t c, std::string& out) {
    for (const char32_t lower : lower_case(c)) append_utf8(out, lower);
  });
}

NormalizerStage strip_stage(bool left, bool right) { return std::make_unique<Strip>(left, right); }

NormalizerStage strip_accents_stage() {
  return character_stage([](char32_t c, std::string& out) {
    if (!is_mark(c)) append_utf8(out, c);
  });
}

NormalizerStage nmt_stage() {
  return character_stage([](char32_t c, std::string& out) {
    const bool removed = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
                         c == 0x8F || c == 0x9F;
    const bool space = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    if (!removed) append_utf8(out, space ? U' ' : c);
  });
}

NormalizerStage charsmap_stage(Charsmap map) {
  return std::make_unique<CharsmapStage>(std::move(map));
}

NormalizerStage letters_stage() {
  return character_stage([](char32_t c, std::string& out) {
    std::string bytes;
    append_utf8(bytes, c);
    for (const char byte : bytes) out += letters_of_bytes()[static_cast<unsigned char>(byte)];
  });
}

NormalizerStage bert_stage(const BertCleaning& options) {
  std::vector<NormalizerStage> stages;
  if (options.clean_text) {
    stages.push_back(character_stage([](char32_t c, std::string& out) {
      const bool space = is_space(c);
      const bool line = c == '\t' || c == '\n' || c == '\r';
      if (c == 0 || c == 0xFFFD || (is_other(c) && !line)) return;
      append_utf8(out, space ? U' ' : c);
    }));
  }
  if (options.handle_chinese_chars) {
    stages.push_back(character_stage([](char32_t c, std::string& out) {
      if (is_chinese(c)) out += ' ';
      append_utf8(out, c);
      if (is_chinese(c)) out += ' ';
    }));
  }
  if (options.strip_accents) {
    stages.push_back(normal_form_stage(NormalForm::kD));
    stages.push_back(character_stage([](char32_t c, std::string& out) {
      if (!is_nonspacing_mark(c)) append_utf8(out, c);
    }));
  }
  if (options.lowercase) stages.push_back(lower_case_stage());
  return std::make_unique<Sequence>(std::move(stages));
}

NormalizerStage sentencepiece_stage(std::shared_ptr<const Charsmap> map,
                                    std::shared_ptr<const Trie> fixed, SentencePieceSpaces spaces) {
  return std::make_unique<SentencePieceStage>(std::move(map), std::move(fixed), spaces);
}

const std::vector<std::string>& letters_of_bytes() {
  static const std::vector<std::string> letters = [] {
    std::vector<std::string> made(256);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                             (byte >= 0xAE && byte <= 0xFF);
      append_utf8(made[byte], printable ? static_cast<char32_t>(byte) : next++);
    }
    return made;
  }();
  return letters;
}

bool bytes_of_letters(std::string_view letters, std::string& bytes) {
  static const std::array<int, 0x144> byte_of = [] {
    std::array<int, 0x144> made;
    made.fill(-1);
    for (unsigned byte = 0; byte < 256; ++byte) {
      size_t at = 0;
      made[next_character(letters_of_bytes()[byte], at)] = static_cast<int>(byte);
    }
    return made;
  }();
  bytes.clear();
  for (size_t at = 0; at < letters.size();) {
    const char32_t c = next_character(letters, at);
    if (c >= byte_of.size() || byte_of[c] < 0) return false;
    bytes += static_cast<char>(byte_of[c]);
  }
  return true;
}

}  // namespace am::data
