// The legal values nearest to what was written: what a `help:` line names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace am::planner {

// All divisors of n >= 1, ascending.
std::vector<int64_t> divisors(int64_t n);

// At most `count` of the candidates, those nearest to `wanted`, ascending.
std::vector<int64_t> nearest_values(std::vector<int64_t> candidates, int64_t wanted,
                                    size_t count = 4);

// The positive multiples of `step` just below and just above `wanted`.
std::vector<int64_t> nearest_multiples(int64_t step, int64_t wanted);

// "tp_size = 1, 2, 4 or 8"; empty when there are no values.
std::string assignment(const std::string& key, const std::vector<int64_t>& values);

}  // namespace am::planner
