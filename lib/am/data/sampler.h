// Computes the data order: which sample of which source is at each position. The position of a
// sample is the number of sequences that training consumes before it.
//
// The data order lists the samples of a source epoch after epoch: in the order of the source, or in
// a permutation that depends only on (seed, epoch, source). Several sources are mixed as
// mixture_order.h describes; each source has its own epochs. A run with a global batch of G
// sequences uses the positions s*G..s*G+G-1 in step s, from step 0. A run that is resumed with
// another G continues at the position that the run had reached. The parallel layout does not affect
// the order.
//
//   Sampler sampler({{.samples = samples->size()}}, {.seed = 0});
//   sampler.draw(1000);                       // the sample at position 1000, counted from 0
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
  int64_t epochs = 0;  // number of epochs after which the source is left out; 0: no limit
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
  // Returns for each source the number of samples drawn before position `place`, divided by the
  // number of samples of an epoch.
  std::vector<double> epochs_before(int64_t place) const;

 private:
  SamplerOptions options_;
  std::vector<SampledSource> sources_;
  std::unique_ptr<MixtureOrder> mixture_;  // null if there is one source
  std::optional<int64_t> size_;
};

// Distribution of a global batch over data-parallel ranks. The sequences of a global batch are
// numbered from 0, in the data order. Micro-batch m of the rank with index d along dp consists of
// the sequences [first, first + micro_batch_size), where first = (m * dp_size + d) *
// micro_batch_size. A step therefore reads the same samples under every layout.
struct BatchLayout {
  int64_t micro_batch_size = 1;
  int64_t dp_size = 1;
  int64_t dp_index = 0;
};

// Returns the number, in the global batch, of the first sequence of a rank's micro-batch: `first`
// in the comment on BatchLayout.
int64_t micro_batch_position(int64_t micro_batch, const BatchLayout& layout);

}  // namespace am::data
