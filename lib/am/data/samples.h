// Samples: the rows of training data, each with seq_len positions.
//
//   const std::unique_ptr<SampleSource> samples = open_samples(spec, {.seq_len = 128});
//   SampleRow row(128);
//   samples->read(7, row);          // row.inputs, row.labels, row.positions
//
// A stream of tokens (token_source.h) is divided into consecutive rows, and the loss counts every
// label. Examples (examples.h) are packed into rows without being split, and may have labels that
// the loss does not count.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/data/token_source.h"

namespace am::data {

// Label of a position that the loss does not count: the default ignore_index of PyTorch's
// cross_entropy.
inline constexpr int64_t kIgnoredLabel = -100;

struct SampleRow {
  explicit SampleRow(int64_t seq_len)
      : inputs(static_cast<size_t>(seq_len)),
        labels(static_cast<size_t>(seq_len), kIgnoredLabel),
        positions(static_cast<size_t>(seq_len)) {}

  std::vector<int64_t> inputs;
  std::vector<int64_t> labels;     // token after each position, or kIgnoredLabel
  std::vector<int64_t> positions;  // position of each token in its document or example
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Returns the number of samples in an epoch.
  virtual int64_t size() const = 0;
  // Fills `row` with sample `index`, which must be below size(). Throws the errors of
  // TokenSource::read().
  virtual void read(int64_t index, SampleRow& row) const = 0;
  // Returns the number of labels of sample `index` that the loss counts.
  virtual int64_t counted_labels(int64_t index) const = 0;
  // Returns the number of tokens in the data, including tokens that no sample contains.
  virtual int64_t tokens() const = 0;
  // Returns a hash by which a resumed run, or another rank, detects that the data differ.
  virtual std::string fingerprint() const = 0;
  // Returns the fingerprint that the data would have if they ended after the given number of
  // tokens, which must not exceed tokens(). Returns an empty text if the data are separate examples
  // instead of one stream of tokens.
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
// stream of tokens for all other kinds. Throws the errors of open_token_source(),
// cut_into_samples(), ConversationReader and pack_examples().
std::unique_ptr<SampleSource> open_samples(const DataSpec& spec, const SampleOptions& options);

// Divides a stream of tokens into samples. The inputs of sample i are the tokens from i * seq_len
// to i * seq_len + seq_len - 1; its labels are the tokens one position later. Throws Error(kPlan)
// if seq_len is below 1, or if the stream has fewer than seq_len + 1 tokens.
std::unique_ptr<SampleSource> cut_into_samples(std::unique_ptr<TokenSource> tokens,
                                               const SampleOptions& options);

}  // namespace am::data
