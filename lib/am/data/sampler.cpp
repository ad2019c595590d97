#include "am/data/sampler.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/random.h"

namespace am::data {
namespace {

// Returns the seed of the permutation of one epoch of a source.
uint64_t epoch_seed(int64_t seed, int64_t epoch, size_t source) {
  const auto words = philox4x32(static_cast<uint64_t>(seed), static_cast<uint64_t>(epoch), source);
  return (uint64_t{words[1]} << 32) | words[0];
}

std::vector<MixtureOrder::Source> limits_of(const std::vector<SampledSource>& sources) {
  std::vector<MixtureOrder::Source> limits;
  for (const SampledSource& source : sources) {
    limits.push_back({source.weight, source.epochs * source.samples});
  }
  return limits;
}

}  // namespace

Sampler::Sampler(const std::vector<SampledSource>& sources, const SamplerOptions& options)
    : options_(options), sources_(sources) {
  AM_ASSERT(!sources.empty(), "a sampler needs a source");
  if (sources.size() == 1) {
    if (sources.front().epochs > 0) size_ = sources.front().epochs * sources.front().samples;
    return;
  }
  mixture_ = std::make_unique<MixtureOrder>(limits_of(sources));
  size_ = mixture_->size();
}

std::optional<Draw> Sampler::draw(int64_t place) const {
  AM_ASSERT(place >= 0, "a negative position in the data order");
  if (size_ && place >= *size_) return std::nullopt;
  const auto turn = mixture_ ? mixture_->turn(place) : MixtureOrder::Turn{0, place};
  if (!turn) return std::nullopt;
  const int64_t samples = sources_[turn->source].samples;
  const int64_t within = turn->nth % samples;
  if (!options_.shuffle) return Draw{turn->source, within};
  const Permutation order(static_cast<uint64_t>(samples),
                          epoch_seed(options_.seed, turn->nth / samples, turn->source));
  return Draw{turn->source, static_cast<int64_t>(order(static_cast<uint64_t>(within)))};
}

std::vector<double> Sampler::epochs_before(int64_t place) const {
  if (size_) place = std::min(place, *size_);
  const std::vector<int64_t> counts =
      mixture_ ? mixture_->counts(place) : std::vector<int64_t>{place};
  std::vector<double> epochs;
  for (size_t i = 0; i < sources_.size(); ++i) {
    epochs.push_back(as_double(counts[i]) / as_double(sources_[i].samples));
  }
  return epochs;
}

int64_t micro_batch_position(int64_t micro_batch, const BatchLayout& layout) {
  return (micro_batch * layout.dp_size + layout.dp_index) * layout.micro_batch_size;
}

}  // namespace am::data
