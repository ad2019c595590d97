// Regular expressions over UTF-8, for the patterns with which tokenizers split text. regex.cpp is
// the only user of PCRE2, which is needed because std::regex lacks \p{L}; the patterns also need
// look-ahead.
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
