// Decides the order of training data, as a pure function of the number of sequences that training
// has consumed before.
//
// The data order lists the samples of a source epoch after epoch: as stored, or in a permutation
// that depends only on (seed, epoch, source). Several sources are mixed as mixture_order.h
// describes; each has its own epochs. A run with G sequences per step uses positions s*G..s*G+G-1
// in step s; a run resumed with another G continues at the position it had reached. The parallel
// layout does not affect the order.
//
//   Sampler sampler({{.samples = samples->size()}}, {.seed = 0});
//   sampler.draw(1000);                       // the sample at position 1000, from 0
//   micro_batch_position(m, {.micro_batch_size = 2, .dp_size = 2, .dp_index = d});
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "am/data/mixture_order.h"

namespace am::data {

struct SamplerOptions {
  int64_t seed = 0;
  bool shuffle = true;
};

struct SampledSource {
  int64_t samples = 0;  // number of samples in an epoch, at least 1
  double weight = 1.0;
  int64_t epochs = 0;  // epochs after which the source is left out; 0: no limit
};

// A sample of a source.
struct Draw {
  size_t source = 0;
  int64_t sample = 0;  // index in the source
  bool operator==(const Draw&) const = default;
};

class Sampler {
 public:
  Sampler(const std::vector<SampledSource>& sources, const SamplerOptions& options);

  // Returns the number of positions in the data order; nullopt if it has no end.
  std::optional<int64_t> size() const { return size_; }
  // Returns the sample at position `place` of the data order; nullopt beyond the end.
  std::optional<Draw> draw(int64_t place) const;
  // Returns the number of epochs of each source before position `place`, with fractions.
  std::vector<double> epochs_before(int64_t place) const;

 private:
  SamplerOptions options_;
  std::vector<SampledSource> sources_;
  std::unique_ptr<MixtureOrder> mixture_;  // null if there is one source
  std::optional<int64_t> size_;
};

// Distribution of a global batch over data-parallel ranks. In the data order, micro-batch m of the
// rank with index d contains the positions [first, first + micro_batch_size) of the global batch,
// where first = (m * dp_size + d) * micro_batch_size. A step thus reads the same samples under
// every layout.
struct BatchLayout {
  int64_t micro_batch_size = 1;
  int64_t dp_size = 1;
  int64_t dp_index = 0;
};

// Returns the first position of a rank's micro-batch in the global batch.
int64_t micro_batch_position(int64_t micro_batch, const BatchLayout& layout);

}  // namespace am::data
