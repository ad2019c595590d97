#include "am/data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cctype>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/data/tokenizer/unicode.h"

namespace am::data {
namespace {

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> text = {};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

// Returns this thread's storage for the bounds of a match. The next match in the same thread
// overwrites the bounds.
pcre2_match_data* match_data() {
  thread_local const std::unique_ptr<pcre2_match_data, FreeMatch> data(
      pcre2_match_data_create(1, nullptr));
  return data.get();
}

struct Compiled {
  pcre2_code* code = nullptr;
  int error = 0;
  size_t offset = 0;
};

Compiled compile(const std::string& pattern, uint32_t options) {
  Compiled compiled;
  compiled.code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    options | PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C,
                    &compiled.error, &compiled.offset, nullptr);
  return compiled;
}

bool is_script(const std::string& name) {
  const Compiled compiled = compile(cat("\\p{sc:", name, "}"), 0);
  pcre2_code_free(compiled.code);
  return compiled.code != nullptr;
}

// Translates a pattern to PCRE2's syntax. Translations in both dialects:
//   \s            excludes U+180E, which PCRE2's \s matches
//   \p{Han}       becomes \p{sc:Han}; PCRE2's \p{Han} also matches characters that several scripts
//                 share
//   [A&&[^B]]     becomes (?:(?![B])[A])
// Translations only in Oniguruma's dialect:
//   \w            also matches marks and all connectors; PCRE2's \w does not
//   \h            matches a hexadecimal digit
//   {1,3}+        repeats the interval; in PCRE2, the + would make the interval possessive
class Translation {
 public:
  Translation(std::string_view pattern, Regex::Dialect dialect)
      : pattern_(pattern), ruby_(dialect == Regex::Dialect::kOniguruma) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape(/*in_class=*/false, out_);
      } else if (c == '[') {
        character_class();
      } else {
        out_ += c;
        ++at_;
        if (c == '}' && ruby_) interval();
      }
    }
    return std::move(out_);
  }

 private:
  char ahead(size_t i) const { return at_ + i < pattern_.size() ? pattern_[at_ + i] : '\0'; }

  // Translates the escape sequence that begins at at_, and moves at_ behind it.
  void escape(bool in_class, std::string& out) {
    const char kind = ahead(1);
    if (kind == 's' || kind == 'S') {
      at_ += 2;
      out += kind == 's' ? R"(\p{White_Space})" : R"(\P{White_Space})";
    } else if (ruby_ && std::string_view("wWhH").find(kind) != std::string_view::npos) {
      at_ += 2;
      const bool word = kind == 'w' || kind == 'W';
      const bool negated = kind == 'W' || kind == 'H';
      const std::string set = !word ? kHexDigit : in_class ? kWord : cat(kWord, kLatin1Numbers);
      if (!in_class) {
        out += cat(negated ? "[^" : "[", set, "]");
      } else if (negated) {
        out += R"(\P{Any})";  // matches nothing; character_class() adds the complement
        complements_.push_back(set);
      } else {
        out += set;
      }
    } else if ((kind == 'p' || kind == 'P') && ahead(2) == '{') {
      property(out);
    } else {
      out += pattern_.substr(at_, 2);
      at_ += 2;
      // The character after the backslash may have several bytes.
      while ((static_cast<unsigned char>(ahead(0)) & 0xC0) == 0x80) out += pattern_[at_++];
    }
  }

  void property(std::string& out) {
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) {
      out += pattern_.substr(at_);
      at_ = pattern_.size();
      return;
    }
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    const bool negated = starts_with(name, "^");
    if (negated) name.remove_prefix(1);
    const bool script = name.size() > 2 && is_script(std::string(name));
    out += cat("\\", pattern_[at_ + 1], "{", negated ? "^" : "", script ? "sc:" : "", name, "}");
    at_ = end + 1;
  }

  void character_class() {
    std::string inside = "[";
    std::string excluded;
    ++at_;
    const bool negated = ahead(0) == '^';
    complements_.clear();
    if (negated) inside += pattern_[at_++];
    if (ahead(0) == ']') inside += cat("\\", pattern_[at_++]);
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      if (starts_with(pattern_.substr(at_), "&&[^")) {
        const size_t end = pattern_.find(']', at_);
        if (end == std::string_view::npos) break;
        const std::string exclusion = cat("[", pattern_.substr(at_ + 4, end + 1 - at_ - 4));
        excluded =
            Translation(exclusion, ruby_ ? Regex::Dialect::kOniguruma : Regex::Dialect::kPerl)
                .run();
        at_ = end + 1;
      } else if (pattern_[at_] == '\\') {
        escape(/*in_class=*/true, inside);
      } else if (starts_with(pattern_.substr(at_), "[:")) {
        const size_t end = pattern_.find(":]", at_);
        const size_t length = end == std::string_view::npos ? 1 : end + 2 - at_;
        inside += pattern_.substr(at_, length);
        at_ += length;
      } else {
        inside += pattern_[at_++];
      }
    }
    if (at_ < pattern_.size()) inside += pattern_[at_++];
    for (const std::string& set : complements_) {
      inside =
          negated ? cat("(?:(?=[", set, "])", inside, ")") : cat("(?:", inside, "|[^", set, "])");
    }
    out_ += excluded.empty() ? inside : cat("(?:(?!", excluded, ")", inside, ")");
  }

  // Translates a + behind an interval such as {1,3}. out_ ends with this interval.
  void interval() {
    const size_t begin = out_.rfind('{');
    if (ahead(0) != '+' || begin == std::string::npos) return;
    const std::string inside = out_.substr(begin + 1, out_.size() - begin - 2);
    if (inside.find_first_not_of("0123456789,") != std::string::npos) return;
    if (starts_with(inside, "1,") || inside == "1") {
      out_.replace(begin, std::string::npos, "+");
    } else if (starts_with(inside, "0,") || starts_with(inside, ",")) {
      out_.replace(begin, std::string::npos, "*");
    } else {
      throw Error(ErrorKind::kFormat, cat("the pattern \"", pattern_, "\" has + after {", inside,
                                          "}, which is not supported"));
    }
    ++at_;
  }

  // Insides of character classes. Oniguruma's \w matches the superscript digits and fractions of
  // Latin-1 (kLatin1Numbers) only outside of a class.
  static constexpr const char* kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
  static constexpr const char* kLatin1Numbers = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
  static constexpr const char* kHexDigit = "0-9a-fA-F";

  std::string_view pattern_;
  bool ruby_;
  size_t at_ = 0;
  std::string out_;
  // Sets whose complements belong to the current class. PCRE2 cannot express the complement of a
  // set inside a class.
  std::vector<std::string> complements_;
};

}  // namespace

struct Regex::Code {
  pcre2_code* compiled = nullptr;
  ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(const std::string& pattern, Dialect dialect) {
  if (!is_utf8(pattern)) throw Error(ErrorKind::kFormat, "a pattern is not UTF-8");
  auto code = std::make_shared<Code>();
  const Compiled compiled =
      compile(Translation(pattern, dialect).run(),
              dialect == Dialect::kOniguruma ? PCRE2_MULTILINE : PCRE2_DOLLAR_ENDONLY);
  code->compiled = compiled.code;
  if (code->compiled == nullptr) {
    throw Error(ErrorKind::kFormat, cat("the pattern \"", pattern, "\" does not compile: ",
                                        error_text(compiled.error), " at ", compiled.offset));
  }
  // The result is ignored: if the system forbids JIT compilation, PCRE2 interprets the pattern,
  // which is only slower.
  pcre2_jit_compile(code->compiled, PCRE2_JIT_COMPLETE);
  code_ = std::move(code);
}

bool Regex::Matches::next(size_t& begin, size_t& end) {
  while (at_ <= text_.size()) {
    // PCRE2_NO_UTF_CHECK is set because each call would otherwise validate the whole text again.
    const int count =
        pcre2_match(regex_.code_->compiled, reinterpret_cast<PCRE2_SPTR>(text_.data()),
                    text_.size(), at_, PCRE2_NO_UTF_CHECK, match_data(), nullptr);
    if (count == PCRE2_ERROR_NOMATCH) return false;
    if (count < 0) {
      throw Error(ErrorKind::kRuntime,
                  cat("splitting the text failed at byte ", at_, ": ", error_text(count)));
    }
    const size_t* bounds = pcre2_get_ovector_pointer(match_data());
    if (bounds[0] >= bounds[1] && bounds[1] == last_end_) {
      if (at_ == text_.size()) return false;
      next_character(text_, at_);
      continue;
    }
    begin = bounds[0];
    end = bounds[1];
    at_ = last_end_ = end;
    return true;
  }
  return false;
}

}  // namespace am::data
