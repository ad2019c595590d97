// The stages of a tokenizer (pipeline.h) that cut text into pieces. The model then converts each
// piece to tokens.
//
//   PreTokenizers stages;
//   stages.push_back(split_stage(Regex("\\p{N}"), SplitBehavior::kIsolated, /*invert=*/false));
//   run(stages, piece, sink);      // passes "ab1" to sink.take() as "ab", then "1"
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "am/data/tokenizer/normalizer.h"

namespace am::data {

// Receives the pieces, in order. No piece is empty.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void take(const Piece& piece) = 0;
};

class PreTokenizer;
using PreTokenizers = std::vector<std::unique_ptr<const PreTokenizer>>;

// The stages all[index], all[index + 1], ... A call passes a piece through these stages to the
// sink.
struct NextStages {
  const PreTokenizers& all;
  size_t index;
  PieceSink& sink;
  void operator()(const Piece& piece) const;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Passes the parts of the piece, changed or not, to `next`.
  virtual void cut(const Piece& piece, const NextStages& next) const = 0;
};

inline void NextStages::operator()(const Piece& piece) const {
  if (piece.text.empty()) return;
  if (index == all.size()) {
    sink.take(piece);
  } else {
    all[index]->cut(piece, {all, index + 1, sink});
  }
}

// Passes a piece through all stages to the sink.
inline void run(const PreTokenizers& stages, const Piece& piece, PieceSink& sink) {
  NextStages{stages, 0, sink}(piece);
}

// Treatment of the matches of a pattern.
enum class SplitBehavior {
  kRemoved,             // matches are removed
  kIsolated,            // each match is a piece
  kMergedWithPrevious,  // a match is the end of the piece before it
  kMergedWithNext,      // a match is the beginning of the piece behind it
  kContiguous,          // neighbouring matches are one piece
};

// Cuts pieces at the matches of the pattern. If `invert`, treats the text between the matches as
// the matches.
std::unique_ptr<const PreTokenizer> split_stage(Pattern pattern, SplitBehavior behavior,
                                                bool invert);

// Pieces before which Metaspace puts `replacement`: all, the piece that begins the text, or none.
enum class PrependScheme { kAlways, kFirst, kNever };
// Replaces each space by `replacement`. Also puts `replacement` before the pieces that `scheme`
// selects, except before a piece that begins with `replacement` or a space.
std::unique_ptr<const PreTokenizer> metaspace_stage(std::string replacement, PrependScheme scheme);
// Puts a space before a piece that does not begin with a space.
std::unique_ptr<const PreTokenizer> prefix_space_stage();
// Applies a normalizer to each piece.
std::unique_ptr<const PreTokenizer> normalizing_stage(NormalizerStage normalizer);

}  // namespace am::data
