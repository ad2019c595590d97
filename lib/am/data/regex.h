// Regular expressions over UTF-8, for the patterns with which tokenizers split text. Uses PCRE2,
// because std::regex lacks the \p{L} of these patterns. Only regex.cpp includes PCRE2.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace am::data {

class Regex {
 public:
  // Throws Error(kFormat) with PCRE2's reason if the pattern does not compile.
  explicit Regex(const std::string& pattern);

  // Calls `found(begin, end)` for each match in order, with byte offsets. `text` must be valid
  // UTF-8. Throws Error(kRuntime) if a match takes too much time or memory.
  void for_each_match(std::string_view text,
                      const std::function<void(size_t begin, size_t end)>& found) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace am::data
