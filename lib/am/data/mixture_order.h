// Order in which training draws samples from the sources of a mixture.
//
//   MixtureOrder order({{.weight = 0.7}, {.weight = 0.3, .most = 50}});
//   order.turn(12345);      // {.source = 0, .nth = 12295}
//
// After any number n of samples, the number of samples drawn from a source differs by less than one
// from the source's share, n * weight / (sum of weights). This is the chairman assignment: R.
// Tijdeman, "The chairman assignment problem", Discrete Mathematics 32 (1980). When a source has no
// samples left, the order continues without this source, and the shares of the remaining sources
// count from that position on. The order is computed in integer arithmetic from the sources'
// weights and limits alone, so the order is the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace am::data {

class MixtureOrder {
 public:
  struct Source {
    double weight = 1.0;  // at least one source has a weight above 0
    int64_t most = 0;     // number of samples after which the source is left out; 0: no limit
  };
  struct Turn {
    size_t source = 0;
    int64_t nth = 0;  // number of samples drawn from this source at earlier positions
    bool operator==(const Turn&) const = default;
  };

  explicit MixtureOrder(const std::vector<Source>& sources);

  // Returns the source of the sample at position `place`; nullopt beyond the last sample. Computes
  // all positions between the previous call's position, or a stored earlier position, and `place`:
  // 10^8 positions take seconds.
  std::optional<Turn> turn(int64_t place) const;
  // Returns for each source the number of samples drawn at positions before `place`.
  std::vector<int64_t> counts(int64_t place) const;
  // Returns the number of positions; nullopt if a source with a weight above 0 has no limit.
  std::optional<int64_t> size() const;

 private:
  struct State {
    int64_t place = 0;
    std::vector<int64_t> counts;
    std::vector<int64_t> credits;  // (share minus drawn samples) times `total`
    std::vector<size_t> active;    // indices of the sources that have samples left
    int64_t total = 0;             // sum of the active sources' units
  };

  // Sets `active` to the sources that have samples left, and restarts their shares: all credits
  // become 0.
  void share_out(State& state) const;
  std::optional<size_t> advance(State& state) const;
  // Returns the state before the draw at position `place`; if the order ends earlier, the state at
  // its end. The caller must hold mutex_.
  const State& walk_to(int64_t place) const;

  std::vector<int64_t> units_;  // weights as integers, with a sum of about 2^40
  std::vector<int64_t> most_;
  mutable std::mutex mutex_;
  mutable std::vector<State> marks_;  // states at regular intervals, from which walk_to() can start
  mutable State last_;
};

}  // namespace am::data
