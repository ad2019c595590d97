#include "am/frameworks/megatron/pipeline_layout.h"

#include <string>

#include "am/base/number.h"

namespace am::frameworks {
namespace {

constexpr int64_t kMostLayers = 1 << 16;

class LayoutReader {
 public:
  explicit LayoutReader(std::string_view text) : text_(text) {}

  // Returns the number of decoder layers of each stage; nullopt if the text is not a layout.
  std::optional<std::vector<int64_t>> run() {
    std::string modules;
    if (!expand(modules, false) || at_ != text_.size()) return std::nullopt;
    std::vector<int64_t> stages(1, 0);
    for (const char module : modules) {
      if (module == '|') {
        stages.push_back(0);
      } else if (module == 't') {
        ++stages.back();
      }
    }
    return stages;
  }

 private:
  bool expand(std::string& out, bool inside) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ')') return inside;
      ++at_;
      if (c == ',') continue;
      std::string piece(1, c);
      if (c == '(') {
        piece.clear();
        // Megatron does not allow nested groups.
        if (inside || !expand(piece, true) || at_ >= text_.size()) return false;
        ++at_;
      } else if (std::string_view("EtmL|").find(c) == std::string_view::npos) {
        return false;
      }
      const auto times = repeats();
      if (!times.has_value()) return false;
      if (*times * static_cast<int64_t>(piece.size()) + static_cast<int64_t>(out.size()) >
          2 * kMostLayers) {
        return false;
      }
      for (int64_t i = 0; i < *times; ++i) out += piece;
    }
    return !inside;
  }

  std::optional<int64_t> repeats() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    const size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    const auto times = parse_integer(text_.substr(begin, at_ - begin));
    return times.has_value() && *times >= 1 && *times <= kMostLayers ? times : std::nullopt;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<int64_t>> stages_of_layout(std::string_view text) {
  return LayoutReader(text).run();
}

}  // namespace am::frameworks
