#include "am/data/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "am/base/text.h"

namespace am::data {
namespace {

// A part of a piece: a match of the pattern, or text outside the matches. With `invert`, `match` is
// true for the text outside the matches.
struct Part {
  size_t begin;
  size_t end;
  bool match;
};

class Split : public PreTokenizer {
 public:
  Split(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void cut(const Piece& piece, const NextStages& next) const override {
    if (behavior_ == SplitBehavior::kIsolated) {
      return for_each_part(piece.text,
                           [&](const Part& part) { next(piece.part(part.begin, part.end)); });
    }
    if (behavior_ == SplitBehavior::kRemoved) {
      return for_each_part(piece.text, [&](const Part& part) {
        if (!part.match) next(piece.part(part.begin, part.end));
      });
    }
    std::vector<Part> parts;
    for_each_part(piece.text, [&](const Part& part) { parts.push_back(part); });
    for (const Part& part : merged(std::move(parts))) next(piece.part(part.begin, part.end));
  }

 private:
  template <typename Visit>
  void for_each_part(std::string_view text, Visit&& visit) const {
    size_t at = 0;
    for_each_match(pattern_, text, [&](size_t begin, size_t end) {
      if (begin > at) visit(Part{at, begin, invert_});
      visit(Part{begin, end, !invert_});
      at = end;
    });
    if (at < text.size()) visit(Part{at, text.size(), invert_});
  }

  // Joins neighbouring parts according to behavior_.
  std::vector<Part> merged(std::vector<Part> parts) const {
    const bool backwards = behavior_ == SplitBehavior::kMergedWithNext;
    if (backwards) std::reverse(parts.begin(), parts.end());
    std::vector<Part> out;
    bool last_match = false;
    for (const Part& part : parts) {
      const bool joins = behavior_ == SplitBehavior::kContiguous ? part.match == last_match
                                                                 : part.match && !last_match;
      last_match = part.match;
      if (!joins || out.empty()) {
        out.push_back(part);
      } else if (backwards) {
        out.back().begin = part.begin;
      } else {
        out.back().end = part.end;
      }
    }
    if (backwards) std::reverse(out.begin(), out.end());
    return out;
  }

  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class Metaspace : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme)
      : replacement_(std::move(replacement)), scheme_(scheme) {}

  void cut(const Piece& piece, const NextStages& next) const override {
    const bool prepended =
        scheme_ != PrependScheme::kNever && !starts_with(piece.text, replacement_) &&
        !starts_with(piece.text, " ") && (scheme_ == PrependScheme::kAlways || piece.begin == 0);
    TracedText out{{}, {}, piece.origin != nullptr};
    const auto origin = [&](size_t at) {
      return piece.origin == nullptr ? ByteRange() : piece.origin[at];
    };
    out.text.reserve(piece.text.size() + piece.text.size() / 2);
    if (prepended) out.append(replacement_, origin(0));
    for (size_t at = 0; at < piece.text.size(); ++at) {
      out.append(piece.text[at] == ' ' ? std::string_view(replacement_) : piece.text.substr(at, 1),
                 origin(at));
    }
    next(whole(out, piece.begin));
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
};

class PrefixSpace : public PreTokenizer {
 public:
  void cut(const Piece& piece, const NextStages& next) const override {
    if (starts_with(piece.text, " ")) return next(piece);
    TracedText out{{}, {}, piece.origin != nullptr};
    out.append(" ", piece.origin == nullptr ? ByteRange() : piece.origin[0]);
    const TracedText rest = copy_of(piece);
    out.append(rest, 0, rest.text.size());
    next(whole(out, piece.begin));
  }
};

class Normalizing : public PreTokenizer {
 public:
  explicit Normalizing(NormalizerStage normalizer) : normalizer_(std::move(normalizer)) {}
  void cut(const Piece& piece, const NextStages& next) const override {
    TracedText text = copy_of(piece);
    normalizer_->apply(text);
    next(whole(text, piece.begin));
  }

 private:
  NormalizerStage normalizer_;
};

}  // namespace

std::unique_ptr<const PreTokenizer> split_stage(Pattern pattern, SplitBehavior behavior,
                                                bool invert) {
  return std::make_unique<Split>(std::move(pattern), behavior, invert);
}

std::unique_ptr<const PreTokenizer> metaspace_stage(std::string replacement, PrependScheme scheme) {
  return std::make_unique<Metaspace>(std::move(replacement), scheme);
}

std::unique_ptr<const PreTokenizer> prefix_space_stage() { return std::make_unique<PrefixSpace>(); }

std::unique_ptr<const PreTokenizer> normalizing_stage(NormalizerStage normalizer) {
  return std::make_unique<Normalizing>(std::move(normalizer));
}

}  // namespace am::data
