// Order in which training draws samples from the sources of a mixture.
//
//   MixtureOrder order({{.weight = 0.7}, {.weight = 0.3, .most = 50}});
//   order.turn(12345);      // {.source = 0, .nth = 12295}
//
// After any number n of samples, each source has had less than one sample more or less than its
// share, weight * n. This is the chairman assignment: R. Tijdeman, "The chairman assignment
// problem", Discrete Mathematics 32 (1980). A source that has given its last sample is left out,
// and the shares of the others are counted from there on. The order is computed with integers from
// the weights alone, so it is the same on every machine.
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
    int64_t nth = 0;  // number of samples drawn from this source before
    bool operator==(const Turn&) const = default;
  };

  explicit MixtureOrder(const std::vector<Source>& sources);

  // Returns the source at a place of the order; nothing beyond the last sample of all sources. The
  // places between the last one asked for and `place` are walked, 10^8 places in seconds.
  std::optional<Turn> turn(int64_t place) const;
  // Returns for each source the number of samples drawn at places before `place`.
  std::vector<int64_t> counts(int64_t place) const;
  // Returns the number of places; nothing if a source has no limit.
  std::optional<int64_t> size() const;

 private:
  struct State {
    int64_t place = 0;
    std::vector<int64_t> counts;
    std::vector<int64_t> credits;  // share minus samples, in units of 1 / total
    std::vector<size_t> active;    // sources that have samples left
    int64_t total = 0;             // sum of the active sources' units
  };

  // Begins to count the shares of the sources that have samples left.
  void share_out(State& state) const;
  std::optional<size_t> advance(State& state) const;
  // Returns the state before `place`, or at the end of the order. Requires the lock.
  const State& walk_to(int64_t place) const;

  std::vector<int64_t> units_;  // weights as integers
  std::vector<int64_t> most_;
  mutable std::mutex mutex_;
  mutable std::vector<State> marks_;  // states at multiples of a fixed number of places
  mutable State last_;
};

}  // namespace am::data
