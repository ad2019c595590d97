#include "am/data/sampler.h"

#include "am/base/error.h"
#include "am/base/random.h"

namespace am::data {
namespace {

// Returns the seed of one epoch's permutation.
uint64_t epoch_seed(int64_t seed, int64_t epoch) {
  const auto words = philox4x32(static_cast<uint64_t>(seed), static_cast<uint64_t>(epoch), 0);
  return (uint64_t{words[1]} << 32) | words[0];
}

}  // namespace

int64_t Sampler::sample(int64_t place) const {
  AM_ASSERT(place >= 0, "a place before the data's beginning");
  const int64_t within = place % num_samples_;
  if (!options_.shuffle) return within;
  const Permutation order(static_cast<uint64_t>(num_samples_),
                          epoch_seed(options_.seed, place / num_samples_));
  return static_cast<int64_t>(order(static_cast<uint64_t>(within)));
}

int64_t micro_batch_position(int64_t micro_batch, const BatchLayout& layout) {
  return (micro_batch * layout.dp_size + layout.dp_index) * layout.micro_batch_size;
}

}  // namespace am::data
