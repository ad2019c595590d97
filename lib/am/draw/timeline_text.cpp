#include "am/draw/timeline_text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "am/base/text.h"

namespace am::draw {
namespace {

term::Role role_of(pipeline::Kind kind) {
  switch (kind) {
    case pipeline::Kind::kForward:
      return term::Role::kAccent;
    case pipeline::Kind::kBackwardWeight:
      return term::Role::kWarning;
    default:
      return term::Role::kHelp;
  }
}

// A line of text that is built from blocks. Columns beyond the line's width are dropped.
class Line {
 public:
  Line(std::string head, int width, const term::Style& style)
      : text_(std::move(head)), left_(width), style_(style) {}

  // Appends a block that is `columns` columns wide: `word`, then `fill` repeated up to the end of
  // the block. The last column stays blank if the block has several columns and fits in the line.
  void block(term::Role role, const std::string& word, const char* fill, int64_t columns) {
    const auto room = static_cast<int>(std::min<int64_t>(columns, left_));
    if (room <= 0) return;
    left_ -= room;
    const int gap = columns > 1 && room == columns ? 1 : 0;
    const std::string shown = word.substr(0, static_cast<size_t>(room - gap));
    const int filled = room - gap - static_cast<int>(shown.size());
    text_ += style_.paint(role, cat(shown, term::repeat(fill, filled)));
    text_ += term::repeat(" ", gap);
  }

  std::string take() {
    text_.erase(text_.find_last_not_of(' ') + 1);
    return text_ + "\n";
  }

 private:
  std::string text_;
  int left_;
  const term::Style& style_;
};

class Picture {
 public:
  Picture(const pipeline::Timeline& timeline, const term::Style& style)
      : timeline_(timeline), style_(style) {
    double shortest = std::numeric_limits<double>::infinity();
    size_t longest_word = 1;
    for (const auto& events : timeline.ranks) {
      for (const pipeline::Event& event : events) {
        many_stages_ = many_stages_ || event.action.stage != events.front().action.stage;
        if (event.end > event.start) shortest = std::min(shortest, event.end - event.start);
      }
    }
    for (const auto& events : timeline.ranks) {
      for (const pipeline::Event& event : events)
        longest_word = std::max(longest_word, word(event).size());
    }
    // Scales time: the shortest pass is as wide as the longest name of a pass, plus one blank.
    scale_ = std::isfinite(shortest) ? static_cast<double>(longest_word + 1) / shortest : 0.0;
    head_ = static_cast<int>(cat("rank ", timeline.ranks.size() - 1).size()) + 2;
    width_ = std::max(1, style.width - head_);
  }

  std::string row(size_t rank) const {
    Line line(term::pad_right(cat("rank ", rank), head_), width_, style_);
    int64_t at = 0;
    for (const pipeline::Event& event : timeline_.ranks[rank]) {
      const int64_t start = std::max(at, column(event.start));
      const int64_t end = std::max(start, column(event.end));
      line.block(term::Role::kDim, "", style_.unicode ? "·" : ".", start - at);
      line.block(role_of(event.action.kind), word(event), style_.unicode ? "─" : "-", end - start);
      at = end;
      if (at >= width_) break;
    }
    return line.take();
  }

  // Returns a line that states which part of the timeline is drawn; empty if all of it is drawn.
  std::string note() const {
    const int64_t all = column(timeline_.makespan);
    // One missing column cuts off only the blank after the last pass, so nothing is reported.
    if (all <= width_ + 1) return {};
    const auto share = static_cast<int64_t>(100.0 * width_ / static_cast<double>(all));
    return cat(term::repeat(" ", head_), style_.unicode ? "…" : "...", " the first ",
               std::max<int64_t>(1, share), " % of the time\n");
  }

 private:
  std::string word(const pipeline::Event& event) const {
    const pipeline::Action& action = event.action;
    return many_stages_ ? to_string(action) : cat(to_string(action.kind), action.micro_batch);
  }

  int64_t column(double time) const {
    constexpr double kFar = 1e15;
    return std::llround(std::min(time * scale_, kFar));
  }

  const pipeline::Timeline& timeline_;
  const term::Style& style_;
  bool many_stages_ = false;
  double scale_ = 1.0;  // columns per unit of the timeline's time
  int head_ = 0;        // width of a rank's label, for example "rank 12  ", in columns
  int width_ = 0;       // width of the timeline, in columns
};

}  // namespace

std::string timeline_text(const pipeline::Timeline& timeline, const term::Style& style,
                          const DrawLimits& limits) {
  const Picture picture(timeline, style);
  const size_t ranks = timeline.ranks.size();
  const size_t shown = std::max<size_t>(2, limits.ranks);
  std::string text;
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (ranks > shown && rank == shown / 2) {
      const size_t last = ranks - (shown - shown / 2);
      text += cat(style.unicode ? "…" : "...", " ", last - rank, " ranks\n");
      rank = last;
    }
    text += picture.row(rank);
  }
  return text + picture.note();
}

}  // namespace am::draw
