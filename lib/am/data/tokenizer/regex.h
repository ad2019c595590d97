// Regular expressions over UTF-8, for the patterns by which tokenizers split text. These patterns
// contain Unicode properties such as \p{L}, which PCRE2 supports and std::regex does not. Only
// regex.cpp includes PCRE2.
//
//   const Regex word("\\p{L}+");
//   Regex::Matches matches(word, text);
//   for (size_t begin = 0, end = 0; matches.next(begin, end);) pieces.push_back({begin, end});
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace am::data {

class Regex {
 public:
  // The dialects differ in `^`, `$`, `\w`, `\h` and `{1,3}+`. regex.cpp translates both dialects to
  // PCRE2's syntax.
  enum class Dialect {
    kOniguruma,  // patterns of tokenizer.json, in Ruby's syntax: `^` and `$` also match within the
                 // text, at the beginning and end of a line
    kPerl,       // patterns of tiktoken and tekken
  };

  // Throws Error(kFormat) with PCRE2's reason if the pattern does not compile.
  explicit Regex(const std::string& pattern, Dialect dialect = Dialect::kOniguruma);

  // The matches in a text, in order. An empty match directly behind another match is left out, as
  // in Oniguruma. `text` must be valid UTF-8. `regex` and `text` must outlive this object.
  class Matches {
   public:
    Matches(const Regex& regex, std::string_view text) : regex_(regex), text_(text) {}
    // Finds the next match, at bytes [begin, end). Returns false if there is none. Throws
    // Error(kRuntime) if a match takes too much time or memory.
    bool next(size_t& begin, size_t& end);

   private:
    const Regex& regex_;
    std::string_view text_;
    size_t at_ = 0;
    size_t last_end_ = static_cast<size_t>(-1);
  };

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace am::data
