// Reads batches of samples, in the sampler's order.
//
//   BatchReader reader(open_samples(spec, {.seq_len = 128}), 128, {.seed = 0});
//   Batch batch = reader.read_micro_batch(place, m, {.micro_batch_size = 2, .dp_size = 2,
//                                                    .dp_index = d});
//   // torch::from_blob(batch.inputs.data(), {batch.rows, batch.seq_len}, torch::kInt64)
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "am/data/sampler.h"
#include "am/data/samples.h"

namespace am::data {

// A batch of sequences, row-major [rows, seq_len]; see SampleRow.
struct Batch {
  int64_t rows = 0;
  int64_t seq_len = 0;
  std::vector<int64_t> inputs;
  std::vector<int64_t> labels;
  std::vector<int64_t> positions;
};

class BatchReader {
 public:
  BatchReader(std::unique_ptr<SampleSource> samples, int64_t seq_len, const SamplerOptions& options)
      : samples_(std::move(samples)), seq_len_(seq_len), sampler_(samples_->size(), options) {}

  const SampleSource& samples() const { return *samples_; }
  const Sampler& sampler() const { return sampler_; }

  // Returns the sequences at positions [first, first + count) of the data order.
  Batch read_batch(int64_t first, int64_t count) const;
  // Returns the number of labels of these sequences that the loss counts.
  int64_t counted_labels(int64_t first, int64_t count) const;
  // Returns a rank's sequences of micro-batch `micro_batch`. The global batch begins at position
  // `place` of the data order.
  Batch read_micro_batch(int64_t place, int64_t micro_batch, const BatchLayout& layout) const;

 private:
  std::unique_ptr<SampleSource> samples_;
  int64_t seq_len_;
  Sampler sampler_;
};

}  // namespace am::data
