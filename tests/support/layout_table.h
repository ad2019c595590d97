// Lists layouts with several mesh axes. test::run() (strategy_table.h) trains each layout for a few
// steps, on ranks that are threads of this process, and compares the results with those of one
// rank.
#pragma once

#include <vector>

#include "support/strategy_table.h"

namespace am::test {

std::vector<Combination> layouts();

// Returns a third of the layouts: another third each day, or the third that the environment
// variable AM_MATRIX_THIRD (0, 1 or 2) selects.
std::vector<Combination> third_of_layouts();

}  // namespace am::test
