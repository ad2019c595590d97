#include "am/data/mixture_order.h"

#include <algorithm>
#include <cmath>

#include "am/base/error.h"

namespace am::data {

namespace {

constexpr int64_t kUnits = int64_t{1} << 40;  // sum to which the weights are scaled before rounding
constexpr int64_t kBetweenMarks = int64_t{1} << 14;  // positions from one of marks_ to the next

}  // namespace

MixtureOrder::MixtureOrder(const std::vector<Source>& sources) {
  double sum = 0.0;
  for (const Source& source : sources) sum += source.weight;
  AM_ASSERT(sum > 0.0, "no source of the mixture has a weight");
  for (const Source& source : sources) {
    const double share = source.weight / sum * static_cast<double>(kUnits);
    units_.push_back(source.weight > 0.0 ? std::max<int64_t>(1, std::llround(share)) : 0);
    most_.push_back(source.most);
  }
  last_.counts.resize(sources.size());
  share_out(last_);
  marks_.push_back(last_);
}

void MixtureOrder::share_out(State& state) const {
  state.credits.assign(units_.size(), 0);
  state.active.clear();
  state.total = 0;
  for (size_t i = 0; i < units_.size(); ++i) {
    const bool left = most_[i] == 0 || state.counts[i] < most_[i];
    if (units_[i] == 0 || !left) continue;
    state.active.push_back(i);
    state.total += units_[i];
  }
}

// Draws the next sample by Tijdeman's algorithm, and returns its source. The excess of a source is
// its share at this position minus the samples drawn from it; n is the number of active sources.
// Candidates are the sources whose excess is at least 1 / (2n-2). The algorithm draws from the
// candidate whose excess would first reach 1 - 1 / (2n-2) without a draw. Returns nullopt if no
// source has samples left.
std::optional<size_t> MixtureOrder::advance(State& state) const {
  __extension__ using Wide = __int128;
  if (state.active.empty()) return std::nullopt;
  const auto sources = static_cast<int64_t>(state.active.size());
  const int64_t parts = std::max<int64_t>(1, 2 * sources - 2);
  std::optional<size_t> chosen;
  Wide slack = 0;  // credit that the chosen source may gain before it must be drawn, times `parts`
  for (const size_t i : state.active) {
    state.credits[i] += units_[i];
    const Wide credit = static_cast<Wide>(state.credits[i]) * parts;
    if (credit < state.total && sources > 1) continue;
    const Wide own = static_cast<Wide>(state.total) * (parts - 1) - credit;
    if (!chosen || own * units_[*chosen] < slack * units_[i]) {
      chosen = i;
      slack = own;
    }
  }
  AM_ASSERT(chosen.has_value(), "no source has its mean share");
  state.credits[*chosen] -= state.total;
  ++state.counts[*chosen];
  ++state.place;
  if (state.counts[*chosen] == most_[*chosen]) share_out(state);
  return chosen;
}

const MixtureOrder::State& MixtureOrder::walk_to(int64_t place) const {
  const auto mark = std::min(static_cast<size_t>(place / kBetweenMarks), marks_.size() - 1);
  if (place < last_.place || marks_[mark].place > last_.place) last_ = marks_[mark];
  while (last_.place < place && advance(last_)) {
    if (last_.place == static_cast<int64_t>(marks_.size()) * kBetweenMarks) marks_.push_back(last_);
  }
  return last_;
}

std::optional<MixtureOrder::Turn> MixtureOrder::turn(int64_t place) const {
  const std::lock_guard lock(mutex_);
  if (walk_to(place).place < place) return std::nullopt;
  State next = last_;
  const auto source = advance(next);
  if (!source) return std::nullopt;
  return Turn{*source, last_.counts[*source]};
}

std::vector<int64_t> MixtureOrder::counts(int64_t place) const {
  const std::lock_guard lock(mutex_);
  return walk_to(place).counts;
}

std::optional<int64_t> MixtureOrder::size() const {
  int64_t all = 0;
  for (size_t i = 0; i < units_.size(); ++i) {
    if (units_[i] == 0) continue;
    if (most_[i] == 0) return std::nullopt;
    all += most_[i];
  }
  return all;
}

}  // namespace am::data
