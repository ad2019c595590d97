#include "am/base/legal_values.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am {

std::vector<int64_t> divisors(int64_t n) {
  AM_ASSERT(n >= 1, "divisors of a positive number");
  std::vector<int64_t> low;
  std::vector<int64_t> high;
  for (int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::vector<int64_t> nearest_values(std::vector<int64_t> candidates, int64_t wanted, size_t count) {
  const auto distance = [&](int64_t value) {
    return value > wanted ? value - wanted : wanted - value;
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](int64_t a, int64_t b) { return distance(a) < distance(b); });
  if (candidates.size() > count) candidates.resize(count);
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

std::vector<int64_t> nearest_multiples(int64_t step, int64_t wanted) {
  AM_ASSERT(step >= 1, "multiples of a positive number");
  const int64_t below = std::max(wanted, int64_t{0}) / step * step;
  std::vector<int64_t> values;
  if (below >= step) values.push_back(below);
  if (below != wanted || below < step) values.push_back(below + step);
  return values;
}

std::string assignment(const std::string& key, const std::vector<int64_t>& values) {
  if (values.empty()) return {};
  return cat(key, " = ", join(values, ", ", " or "));
}

}  // namespace am
