#include "am/predict/search/least_gpus.h"

#include <algorithm>
#include <bit>

namespace am::predict {

std::optional<int64_t> least_gpus(SearchRequest request, const Calibration& calibration,
                                  int64_t from) {
  constexpr int64_t kMostGpus = 32768;
  const auto machine = std::max<int64_t>(1, static_cast<int64_t>(request.gpu.gpus_per_node));
  request.top = 1;
  const auto fits = [&](int64_t gpus) {
    request.gpus = gpus;
    return !search(request, calibration).layouts.empty();
  };
  for (int64_t gpus = 1; gpus < machine; gpus *= 2) {
    if (gpus >= from && fits(gpus)) return gpus;
  }
  // Bisection could miss the smallest number of GPUs: a model that fits on some number need not fit
  // on a larger one, because the sizes of the axes must divide the number. Beyond 32 machines, only
  // multiples of a power of two are tried, which have many divisors.
  const auto step = [](int64_t machines) {
    const auto power = std::bit_floor(static_cast<uint64_t>(machines));
    return std::max<int64_t>(1, static_cast<int64_t>(power) / 16);
  };
  int64_t machines = (std::max(from, machine) + machine - 1) / machine;
  machines = (machines + step(machines) - 1) / step(machines) * step(machines);
  for (; machines * machine <= kMostGpus; machines += step(machines)) {
    if (fits(machines * machine)) return machines * machine;
  }
  return std::nullopt;
}

}  // namespace am::predict
