// Finds the legal values nearest to an illegal value, for the `help:` line of a diagnostic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace am {

// Returns all divisors of n >= 1, ascending.
std::vector<int64_t> divisors(int64_t n);

// Returns the `count` candidates that are nearest to `wanted`, or all candidates if there are
// fewer, in ascending order.
std::vector<int64_t> nearest_values(std::vector<int64_t> candidates, int64_t wanted,
                                    size_t count = 4);

// Returns `wanted` if it is a positive multiple of `step`, otherwise the positive multiples just
// below and just above `wanted`, which must not be negative.
std::vector<int64_t> nearest_multiples(int64_t step, int64_t wanted);

// Returns the values that can be assigned to a key, for example "tp_size = 1, 2, 4 or 8". Returns
// an empty string if there are no values.
std::string assignment(const std::string& key, const std::vector<int64_t>& values);

}  // namespace am
