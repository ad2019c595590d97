// Decides the order of training data, as a pure function of the number of sequences that training
// has consumed before.
//
// Training consumes an endless sequence of samples, epoch after epoch: in order, or
// in a permutation that depends only on (seed, epoch). A run with G sequences per step uses the
// positions s*G .. s*G+G-1 in step s; a run resumed with another G continues at the position it had
// reached. The parallel layout does not affect the order.
//
//   Sampler sampler(samples->size(), {.seed = 0});
//   sampler.sample(1000);                     // the sample at position 1000, from 0
//   micro_batch_position(m, {.micro_batch_size = 2, .dp_size = 2, .dp_index = d});
#pragma once

#include <cstdint>

namespace am::data {

struct SamplerOptions {
  int64_t seed = 0;
  bool shuffle = true;
};

class Sampler {
 public:
  // `num_samples`: number of samples in an epoch, at least 1.
  Sampler(int64_t num_samples, const SamplerOptions& options)
      : options_(options), num_samples_(num_samples) {}

  int64_t num_samples() const { return num_samples_; }
  // Returns the index of the sample at position `place` of the endless sequence of epochs.
  int64_t sample(int64_t place) const;

 private:
  SamplerOptions options_;
  int64_t num_samples_;
};

// Distribution of a global batch over data-parallel ranks. In the data order, micro-batch m of the
// rank with index d contains the positions [m*micro*dp + d*micro, ... + micro) of the global batch.
// A step thus reads the same samples under every layout.
struct BatchLayout {
  int64_t micro_batch_size = 1;
  int64_t dp_size = 1;
  int64_t dp_index = 0;
};

// Returns the first position of a rank's micro-batch in the global batch.
int64_t micro_batch_position(int64_t micro_batch, const BatchLayout& layout);

}  // namespace am::data
