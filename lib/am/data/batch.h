// Reads batches of samples in the data order (sampler.h).
//
//   std::vector<DataSource> sources;
//   sources.push_back({.samples = open_samples(spec, {.seq_len = 128})});
//   BatchReader reader(std::move(sources), 128, {.seed = 0});
//   Batch batch = reader.read_micro_batch(place, m, {.micro_batch_size = 2, .dp_size = 2,
//                                                    .dp_index = d});
//   // torch::from_blob(batch.inputs.data(), {batch.rows, batch.seq_len}, torch::kInt64)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "am/data/sampler.h"
#include "am/data/samples.h"

namespace am::data {

// A batch of sequences, row-major [rows, seq_len]; see SampleRow. In rows beyond the end of the
// data, all labels are kIgnoredLabel.
struct Batch {
  int64_t rows = 0;
  int64_t seq_len = 0;
  std::vector<int64_t> inputs;
  std::vector<int64_t> labels;
  std::vector<int64_t> positions;
};

struct DataSource {
  std::unique_ptr<SampleSource> samples;
  double weight = 1.0;
  int64_t epochs = 0;  // number of epochs after which the source is left out; 0: no limit
};

class BatchReader {
 public:
  BatchReader(std::vector<DataSource> sources, int64_t seq_len, const SamplerOptions& options);

  const std::vector<DataSource>& sources() const { return sources_; }
  const Sampler& sampler() const { return sampler_; }

  // Returns one line per source, for the log.
  std::vector<std::string> descriptions() const;
  // Returns the number of tokens in the files of all sources.
  int64_t tokens() const;
  // Returns a hash that changes if the data change or, with several sources, if their weights or
  // epochs change.
  std::string fingerprint() const;

  // Returns the sequences at positions [first, first + count) of the data order.
  Batch read_batch(int64_t first, int64_t count) const;
  // Returns the number of labels that the loss counts in the sequences at positions [first, first +
  // count) of the data order.
  int64_t counted_labels(int64_t first, int64_t count) const;
  // Returns the sequences of micro-batch `micro_batch` for the rank that `layout` describes.
  // `place` is the position in the data order at which the global batch begins.
  Batch read_micro_batch(int64_t place, int64_t micro_batch, const BatchLayout& layout) const;

 private:
  std::vector<DataSource> sources_;
  int64_t seq_len_;
  Sampler sampler_;
};

}  // namespace am::data
