// Which sample stands where: the order of the data, a pure function of how many came before.
//
// Sample i has the inputs t[i*seq_len .. i*seq_len+seq_len-1] and the labels one further. Training
// takes them from an endless sequence that walks through all samples, epoch after epoch: in order,
// or in a permutation that depends on (seed, epoch) alone. A run with G sequences a step takes the
// places s*G .. s*G+G-1 of it in step s; one that goes on with another G begins where the data
// stood. The layout has no say in it.
//
//   Sampler sampler(source->size(), {.seq_len = 128, .seed = 0});
//   sampler.sample(1000);                     // of place 1000, from 0
//   micro_batch_position(m, d, layout);       // where the sequences of rank d's micro-batch m
//   begin
#pragma once

#include <cstdint>

namespace am::data {

struct SamplerOptions {
  int64_t seq_len = 0;
  int64_t seed = 0;
  bool shuffle = true;
};

class Sampler {
 public:
  // Throws Error(kPlan) when `num_tokens` is less than seq_len + 1 or seq_len is below 1.
  Sampler(int64_t num_tokens, const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }
  // (num_tokens - 1) / seq_len
  int64_t num_samples() const { return num_samples_; }
  // The sample at a place of the endless sequence.
  int64_t sample(int64_t place) const;

 private:
  SamplerOptions options_;
  int64_t num_samples_;
};

// How a global batch is dealt out: micro-batch m of data-parallel index d holds the positions
// [m*micro*dp + d*micro, ... + micro). Every layout then sees the same samples in a step.
struct BatchLayout {
  int64_t micro_batch_size = 1;
  int64_t dp_size = 1;
  int64_t dp_index = 0;
};

// First position of micro-batch `micro_batch`.
int64_t micro_batch_position(int64_t micro_batch, const BatchLayout& layout);

}  // namespace am::data
