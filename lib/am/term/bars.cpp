#include "am/term/bars.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/term/printable.h"
#include "am/term/table.h"

namespace am::term {
namespace {

// Returns a bar that fills `fraction` of `length` columns; empty if `fraction` is not positive.
std::string bar_text(double fraction, int length, bool unicode) {
  if (!(fraction > 0.0)) return {};
  fraction = std::min(fraction, 1.0);
  if (!unicode) return repeat("#", std::max(1, static_cast<int>(std::lround(fraction * length))));
  static constexpr std::array<const char*, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = std::max(1, static_cast<int>(std::lround(fraction * length * 8)));
  return repeat("█", eighths / 8) + kEighths[static_cast<size_t>(eighths % 8)];
}

double usable(double value) { return std::isfinite(value) && value > 0.0 ? value : 0.0; }

}  // namespace

std::string bars(std::span<const Bar> items, int length, const Style& style, double scale) {
  double largest = usable(scale);
  int label_width = 0, text_width = 0;
  for (const Bar& item : items) {
    largest = std::max(largest, usable(item.value));
    label_width = std::max(label_width, display_width(item.label));
    text_width = std::max(text_width, display_width(item.text));
  }
  // In a narrow window, shortens the bars first, then the labels.
  constexpr int kGaps = 4, kLeastBar = 10, kLeastLabel = 16;
  const auto excess = [&] { return label_width + length + text_width + kGaps - style.width; };
  if (style.window && excess() > 0) length -= std::clamp(length - kLeastBar, 0, excess());
  if (style.window && excess() > 0) {
    label_width -= std::clamp(label_width - kLeastLabel, 0, excess());
  }
  std::string out;
  for (const Bar& item : items) {
    const double fraction = largest > 0.0 ? usable(item.value) / largest : 0.0;
    const std::string bar = bar_text(fraction, length, style.unicode);
    out += pad_right(short_name(printable(item.label), label_width, style), label_width);
    out += cat("  ", pad_right(style.paint(item.role, bar), length));
    if (!item.text.empty()) out += cat("  ", pad_left(printable(item.text), text_width));
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  return out;
}

std::string bar(const Bar& item, int length, const Style& style, double scale) {
  std::string line = bars(std::span(&item, 1), length, style, scale);
  line.pop_back();
  return line;
}

std::string histogram(std::span<const int64_t> counts, double low, double high, int length,
                      const Style& style) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  const double step = counts.empty() ? 0.0 : (high - low) / static_cast<double>(counts.size());
  std::vector<Bar> items;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto count = static_cast<double>(counts[i]);
    const double edge = low + step * static_cast<double>(i);
    const std::string share = format_fixed(total > 0.0 ? 100.0 * count / total : 0.0, 1);
    items.push_back({pad_left(format_general(edge, 4), 10), count,
                     cat(format_count(counts[i]), "  ", pad_left(share, 5), "%")});
  }
  return bars(items, length, style);
}

std::string columns(std::span<const int64_t> counts, const Style& style) {
  static constexpr std::array<const char*, 8> kEighths = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array<const char*, 8> kAscii = {"_", "_", ".", ".", ":", ":", "|", "|"};
  int64_t largest = 1;
  for (const int64_t count : counts) largest = std::max(largest, count);
  std::string out;
  for (const int64_t count : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(largest);
    const auto eighth = static_cast<size_t>(std::clamp(std::ceil(share * 8) - 1, 0.0, 7.0));
    out += count <= 0 ? " " : (style.unicode ? kEighths : kAscii).at(eighth);
  }
  return out;
}

}  // namespace am::term
