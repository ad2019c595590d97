#include "am/observe/status_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/term/line_plot.h"
#include "am/term/wrap.h"

namespace am::observe {
namespace {

constexpr size_t kMostLosses = 40;
constexpr std::string_view kClear = "\r\x1b[K";
constexpr std::string_view kBetween = " | ";  // between the parts of a step line
constexpr std::string_view kGap = "  ";       // between the parts of the status line

bool is_step_line(std::string_view line) {
  return starts_with(line, "step ") && line.find(" | loss ") != std::string_view::npos;
}

std::vector<std::string> parts_of(std::string_view line) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= line.size();) {
    const size_t end = std::min(line.find(kBetween, at), line.size());
    parts.emplace_back(line.substr(at, end - at));
    at = end + kBetween.size();
  }
  return parts;
}

std::optional<double> loss_in(const std::vector<std::string>& parts) {
  constexpr std::string_view kLoss = "loss ";
  for (const std::string& part : parts) {
    if (!starts_with(part, kLoss)) continue;
    double loss = std::numeric_limits<double>::quiet_NaN();
    std::from_chars(part.data() + kLoss.size(), part.data() + part.size(), loss);
    return loss;
  }
  return std::nullopt;
}

int width_of(const std::vector<std::string>& parts) {
  return term::visible_width(join(parts, kGap));
}

// Returns a part of a step line in fewer columns: "mem 412.50 MiB" as "mem 412M", "eta 0:01:01" as
// "eta 1:01". The rate per rank is left out, because it follows from the total rate.
std::string shortened(std::string part) {
  if (const size_t at = part.find(" tok/s ("); at != std::string::npos) {
    part.erase(at + std::string_view(" tok/s").size());
  } else if (starts_with(part, "mem ")) {
    double value = 0.0;
    const auto read = std::from_chars(part.data() + 4, part.data() + part.size(), value);
    const auto unit = static_cast<size_t>(read.ptr - part.data()) + 1;
    if (read.ec == std::errc() && unit < part.size()) {
      part = cat("mem ", format_fixed(value, value < 10.0 ? 1 : 0), part.substr(unit, 1));
    }
  } else if (starts_with(part, "eta 0:")) {
    part.erase(4, part[6] == '0' ? 3 : 2);
  }
  return part;
}

bool is_step_time(std::string_view part) {
  return !part.empty() && part.front() >= '0' && part.front() <= '9' && ends_with(part, "s") &&
         !ends_with(part, "/s");
}

// Returns the column in which the continuation lines of a wrapped line begin. If the line begins
// with a label, for example "data        " or "help: ", this is the column of the text after the
// label; otherwise 2.
int text_column(std::string_view line) {
  constexpr size_t kWidestLabel = 16;
  constexpr std::string_view kHelp = "help: ";
  if (starts_with(line, kHelp)) return static_cast<int>(kHelp.size());
  const size_t gap = line.find("  ");
  const size_t text = line.find_first_not_of(' ', gap);
  const bool is_label = gap > 0 && gap < line.find(' ') + 1 && text <= kWidestLabel;
  return is_label ? static_cast<int>(text) : 2;
}

// Returns `lines`, with each line that is wider than the terminal wrapped between words.
std::string folded(std::string_view lines, const term::Style& style) {
  std::string out;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string_view line = lines.substr(at, end - at);
    out += term::visible_width(line) <= style.width
               ? cat(line, "\n")
               : term::fold(cat(line, "\n"), style, text_column(line));
    at = end + 1;
  }
  return out;
}

}  // namespace

std::string fitted_step_line(std::string_view line, const std::vector<double>& losses,
                             const term::Style& style) {
  if (!is_step_line(line)) return {};
  std::vector<std::string> parts = parts_of(line);
  for (std::string& part : parts) part = shortened(std::move(part));
  // Parts are left out in this order until a curve of a few columns fits. "TIME" stands for the
  // step time, which has no label.
  constexpr std::array<std::string_view, 8> kLeastFirst = {
      "lr ", "TIME", "experts ", "mem ", "epoch ", "validation loss", "norm ", "eta "};
  constexpr int kLeastCurve = 9;
  for (const std::string_view least : kLeastFirst) {
    if (width_of(parts) + kLeastCurve <= style.width) break;
    std::erase_if(parts, [&](const std::string& part) {
      return least == "TIME" ? is_step_time(part) : starts_with(part, least);
    });
  }
  const int room = style.width - width_of(parts) - 2;
  const auto loss = std::find_if(parts.begin(), parts.end(), [](const std::string& part) {
    return starts_with(part, "loss ");
  });
  if (room > 1 && losses.size() > 1) {
    *loss += " " + term::sparkline(losses, std::min(room, static_cast<int>(kMostLosses)), style);
  }
  std::string out = join(parts, kGap);
  if (term::visible_width(out) >= style.width) out.resize(static_cast<size_t>(style.width) - 1);
  return out;
}

std::string StatusLine::drawn(std::string_view step_line) {
  if (const auto loss = loss_in(parts_of(step_line))) losses_.push_back(*loss);
  if (losses_.size() > kMostLosses) losses_.erase(losses_.begin());
  shown_ = fitted_step_line(step_line, losses_, style_);
  return cat(kClear, shown_);
}

std::string StatusLine::pass(std::string_view bytes) {
  std::string out;
  partial_ += bytes;
  size_t at = 0;
  for (size_t end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n', at)) {
    const std::string_view line = std::string_view(partial_).substr(at, end - at);
    out += is_step_line(line) ? drawn(line) : beside(cat(line, "\n"));
    at = end + 1;
  }
  partial_.erase(0, at);
  return out;
}

std::string StatusLine::beside(std::string_view text) const {
  if (shown_.empty()) return folded(text, style_);
  return cat(kClear, folded(text, style_), shown_);
}

std::string StatusLine::finish() {
  const std::string rest = std::exchange(partial_, {});
  std::string out = rest.empty() ? std::string() : beside(rest + "\n");
  if (!std::exchange(shown_, {}).empty()) out += "\n";
  losses_.clear();
  return out;
}

}  // namespace am::observe
