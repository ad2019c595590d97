#include "am/config/places.h"

#include <algorithm>
#include <utility>

#include "am/base/text.h"

namespace am::config {

Places::Places(std::string_view text, std::string file)
    : text_(text), file_(std::move(file)), lines_{0} {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') lines_.push_back(i + 1);
  }
}

size_t Places::line_of(size_t at) const {
  const auto after = std::upper_bound(lines_.begin(), lines_.end(), at);
  return static_cast<size_t>(after - lines_.begin()) - 1;
}

Span Places::span(size_t at, int length) const {
  constexpr size_t kLongest = 300;
  const size_t line = line_of(at);
  const size_t begin = lines_[line];
  const size_t end = line + 1 < lines_.size() ? lines_[line + 1] - 1 : text_.size();
  Span span;
  span.file = file_;
  span.line = static_cast<int>(line) + 1;
  span.column = static_cast<int>(at - begin) + 1;
  span.length = length;
  if (end - begin > kLongest) return span;
  span.column = character_count(text_.substr(begin, at - begin)) + 1;
  span.source = text_.substr(begin, end - begin);
  if (!span.source.empty() && span.source.back() == '\r') span.source.pop_back();
  return span;
}

}  // namespace am::config
