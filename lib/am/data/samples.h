// Samples: the rows of training data, each with the same number of positions.
//
//   const std::unique_ptr<SampleSource> samples = open_samples(spec, {.seq_len = 128});
//   SampleRow row(128);
//   samples->read(7, row);          // row.inputs, row.labels, row.positions
//
// A stream of tokens (token_source.h) is cut into consecutive rows; every label counts. Examples
// (examples.h) may have labels that do not count, and are packed into rows without being split.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/data/token_source.h"

namespace am::data {

// Label of a position that the loss does not count; PyTorch's ignore_index.
inline constexpr int64_t kIgnoredLabel = -100;

struct SampleRow {
  explicit SampleRow(int64_t seq_len)
      : inputs(static_cast<size_t>(seq_len)),
        labels(static_cast<size_t>(seq_len), kIgnoredLabel),
        positions(static_cast<size_t>(seq_len)) {}

  std::vector<int64_t> inputs;
  std::vector<int64_t> labels;     // token after each position, or kIgnoredLabel
  std::vector<int64_t> positions;  // position of each token in its document
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Returns the number of samples in an epoch.
  virtual int64_t size() const = 0;
  // Fills a row with sample `index`, below size(). Throws the errors of TokenSource::read().
  virtual void read(int64_t index, SampleRow& row) const = 0;
  // Returns the number of labels of sample `index` that the loss counts.
  virtual int64_t counted_labels(int64_t index) const = 0;
  // Returns the number of tokens in the files.
  virtual int64_t tokens() const = 0;
  // Returns a hash by which changed data are detected (fingerprint.h).
  virtual std::string fingerprint() const = 0;
  // Returns the fingerprint that the data would have if they ended after this number of tokens, at
  // most tokens(). Empty if the data are separate examples instead of one stream of tokens.
  virtual std::string fingerprint_of_first(int64_t /*tokens*/) const { return {}; }
  // Returns a description for the log.
  virtual std::string description() const = 0;
};

struct SampleOptions {
  int64_t seq_len = 0;
  // Token that ends a document: positions restart after it. Absent: a row is one document.
  std::optional<int64_t> document_end = {};
};

// Opens the data that `spec` describes: examples for the kinds "chat" and "synthetic_chat", a
// stream of tokens for all others. Throws the errors of open_token_source(), ConversationReader and
// pack_examples().
std::unique_ptr<SampleSource> open_samples(const DataSpec& spec, const SampleOptions& options);

// Cuts a stream of tokens into samples. Sample i has the inputs t[i*seq_len ..
// i*seq_len+seq_len-1]; its labels are the tokens one position later. Throws Error(kPlan) if the
// stream has fewer tokens than one sample needs.
std::unique_ptr<SampleSource> cut_into_samples(std::unique_ptr<TokenSource> tokens,
                                               const SampleOptions& options);

}  // namespace am::data
