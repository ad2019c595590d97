// Every strategy with its options trains like one rank, sends the messages that formulas predict,
// and needs the predicted memory. scripts/strategy_table prints these results as a table.
#include "support/strategy_table.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace am {

TEST_CASE("strategies x options") {
  for (const test::Combination& combination : test::combinations()) {
    DYNAMIC_SECTION(combination.name << " on " << combination.world) {
      const test::Row row = test::run(combination, test::TableSize::kSmall);
      CHECK(row.gradients <= (combination.exact ? 1e-6 : 3e-2));
      CHECK(row.losses <= (combination.exact ? 1e-5 : 1e-2));
      CHECK(row.norms <= (combination.exact ? 1e-5 : 3e-2));
      CHECK(row.weights <= (combination.exact ? 1e-5 : 3e-2));
      CHECK(row.sent == row.formula);
      CHECK(row.phases == 0.0);
      const double packed = test::packed_operands(combination);
      CHECK(std::abs(row.peak_dry_run) <= 0.02 + packed / static_cast<double>(row.peak_bytes));
    }
  }
}

TEST_CASE("am-plan predicts the memory of every strategy") {
  for (const test::Combination& combination : test::combinations()) {
    if (combination.world != 2) continue;
    DYNAMIC_SECTION(combination.name << " on " << combination.world) {
      const test::Row row = test::run_for_memory(combination, test::TableSize::kLarge);
      CHECK(std::abs(row.peak_planner) <= 0.02);
    }
  }
}

}  // namespace am
