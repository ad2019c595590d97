#include "am/term/wrap.h"

#include <algorithm>

#include "am/base/text.h"

namespace am::term {

namespace {

// Returns the position after the last punctuation mark in the first `width` bytes of a word.
// Returns the word's size if these bytes contain no punctuation mark.
size_t break_at(std::string_view word, int width) {
  const size_t mark = word.find_last_of(".,_-/:", static_cast<size_t>(std::max(1, width)) - 1);
  return mark == std::string_view::npos || mark + 1 == word.size() ? word.size() : mark + 1;
}

std::vector<std::string> pieces_of(std::string_view word, int width) {
  std::vector<std::string> pieces;
  while (visible_width(word) > width) {
    const size_t end = break_at(word, width);
    if (end == word.size()) break;
    pieces.emplace_back(word.substr(0, end));
    word.remove_prefix(end);
  }
  pieces.emplace_back(word);
  return pieces;
}

}  // namespace

std::vector<std::string> wrap(std::string_view text, int width, bool breaks_words) {
  std::vector<std::string> lines;
  for (const std::string& word : split(text, ' ')) {
    std::vector<std::string> pieces = breaks_words ? pieces_of(word, width) : std::vector{word};
    const int first = visible_width(pieces.front());
    auto next = pieces.begin();
    if (!lines.empty() && visible_width(lines.back()) + 1 + first <= width) {
      lines.back() += cat(" ", *next++);
    }
    lines.insert(lines.end(), next, pieces.end());
  }
  return lines;
}

std::string fold(std::string_view text, const Style& style, int hang, bool breaks_words) {
  std::vector<std::string> out;
  for (const std::string& line : split(text, '\n')) {
    if (visible_width(line) <= style.width) {
      out.push_back(line);
      continue;
    }
    const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
    const std::string margin(blanks, ' ');
    std::string indent = margin;
    for (const std::string& part :
         wrap(std::string_view(line).substr(blanks), style.width - static_cast<int>(blanks) - hang,
              breaks_words)) {
      out.push_back(indent + part);
      indent = margin + std::string(static_cast<size_t>(hang), ' ');
    }
  }
  return join(out, "\n");
}

std::string beside(std::string_view left, std::string_view text, const Style& style, Role role) {
  constexpr int kGap = 2;
  constexpr int kNarrowest = 16;
  const int column = visible_width(left) + kGap;
  std::string out;
  for (const std::string& line : wrap(text, std::max(kNarrowest, style.width - column))) {
    const std::string margin =
        out.empty() ? std::string(left) + repeat(" ", kGap) : "\n" + repeat(" ", column);
    out += margin + style.paint(role, line);
  }
  return out;
}

}  // namespace am::term
