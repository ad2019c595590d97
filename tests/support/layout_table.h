// Compares layouts with several mesh axes with one rank, as strategy_table.h compares strategies.
// Each layout trains for a few steps, on ranks that are threads of this process.
#pragma once

#include <vector>

#include "support/strategy_table.h"

namespace am::test {

std::vector<Combination> layouts();

// Returns a third of the layouts: a different one each day, or the one that AM_MATRIX_THIRD = 0, 1
// or 2 selects.
std::vector<Combination> third_of_layouts();

}  // namespace am::test
