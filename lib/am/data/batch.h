// Reads batches from a token source, in the sampler's order.
//
//   BatchReader reader(open_token_source(spec), {.seq_len = 128});
//   Batch batch = reader.read_micro_batch(place, m, {.micro_batch_size = 2, .dp_size = 2,
//                                                    .dp_index = d});
//   // torch::from_blob(batch.inputs.data(), {batch.rows, batch.seq_len}, torch::kInt64)
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "am/data/sampler.h"
#include "am/data/token_source.h"

namespace am::data {

// A batch of sequences. Inputs and labels are row-major [rows, seq_len].
struct Batch {
  int64_t rows = 0;
  int64_t seq_len = 0;
  std::vector<int64_t> inputs;
  std::vector<int64_t> labels;
};

// Returns each token's position in its document, row-major like the inputs. A document ends with
// `eod_token`, and each row begins a new document.
std::vector<int64_t> document_positions(const Batch& batch, int64_t eod_token);

class BatchReader {
 public:
  // Throws Error(kPlan) if the source has fewer tokens than one sample needs.
  BatchReader(std::unique_ptr<TokenSource> source, const SamplerOptions& options);

  const TokenSource& source() const { return *source_; }
  const Sampler& sampler() const { return sampler_; }

  // Returns the sequences at positions [first, first + count) of the data order.
  Batch read_batch(int64_t first, int64_t count) const;
  // Returns a rank's sequences of micro-batch `micro_batch`. The global batch begins at position
  // `place` of the data order.
  Batch read_micro_batch(int64_t place, int64_t micro_batch, const BatchLayout& layout) const;

 private:
  std::unique_ptr<TokenSource> source_;
  Sampler sampler_;
};

}  // namespace am::data
