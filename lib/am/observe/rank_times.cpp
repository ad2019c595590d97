#include "am/observe/rank_times.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "am/base/text.h"
#include "am/base/units.h"

namespace am::observe {
namespace {

struct Kind {
  std::string_view name;
  double RankTimes::*seconds;
};
constexpr std::array<Kind, 3> kKinds = {{
    {"compute", &RankTimes::compute},
    {"data", &RankTimes::data},
    {"saving", &RankTimes::saving},
}};

// Ranks with equal work.
struct Group {
  int64_t ranks = 0;
  std::array<std::vector<double>, kKinds.size()> seconds;  // seconds[kind]: one time per rank
  std::array<double, kKinds.size()> usual{};               // usual[kind]: median
};

double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<SlowRank> find_slow_ranks(std::span<const RankTimes> times,
                                      std::span<const int64_t> peers,
                                      std::span<const RankTimes> earlier) {
  constexpr double kShareOfStep = 0.2;
  std::map<int64_t, Group> groups;
  for (size_t rank = 0; rank < times.size(); ++rank) {
    Group& group = groups[peers[rank]];
    ++group.ranks;
    for (size_t kind = 0; kind < kKinds.size(); ++kind) {
      group.seconds[kind].push_back(times[rank].*kKinds[kind].seconds);
    }
  }
  for (auto& [number, group] : groups) {
    for (size_t kind = 0; kind < kKinds.size(); ++kind) {
      group.usual[kind] = lower_median(std::move(group.seconds[kind]));
    }
  }
  std::vector<SlowRank> slow;
  for (size_t rank = 0; rank < times.size(); ++rank) {
    const double step = times[rank].own() + times[rank].waiting;
    const Group& group = groups[peers[rank]];
    std::optional<SlowRank> worst;
    for (size_t i = 0; i < kKinds.size(); ++i) {
      const Kind& kind = kKinds[i];
      // The saving time of a rank without peers is not compared with its earlier saving time,
      // because the earlier steps may have saved no checkpoint.
      const bool alone = group.ranks == 1;
      if (alone && (earlier.empty() || kind.seconds == &RankTimes::saving)) continue;
      const double usual = alone ? earlier[rank].*kind.seconds : group.usual[i];
      const double excess = times[rank].*kind.seconds - usual;
      if (excess <= kShareOfStep * step) continue;
      if (worst && excess <= worst->seconds - worst->of_others) continue;
      worst = {static_cast<int64_t>(rank), kind.name, times[rank].*kind.seconds, usual};
    }
    if (worst) slow.push_back(*worst);
  }
  return slow;
}

std::string describe(const SlowRank& slow, const std::string& host) {
  return cat("rank ", slow.rank, " (", host,
             ") holds up the others: ", format_step_time(slow.seconds), " of ", slow.kind,
             " per step, usual: ", format_step_time(slow.of_others));
}

}  // namespace am::observe
