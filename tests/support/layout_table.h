// Layouts of several axes, each trained for a few steps on ranks of this process and held against
// one rank, as strategy_table.h does with strategies.
#pragma once

#include <vector>

#include "support/strategy_table.h"

namespace am::test {

std::vector<Combination> layouts();

// A third of them, another each day, or that which AM_MATRIX_THIRD = 0, 1 or 2 names.
std::vector<Combination> third_of_layouts();

}  // namespace am::test
