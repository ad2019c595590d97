// Every strategy with its options trains as one rank does, sends what the formulas say and holds
// the memory that was predicted. scripts/strategy_table prints the same as a table.
#include "support/strategy_table.h"

#include <ATen/native/CPUBlas.h>

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
      // In bfloat16 oneDNN packs the operands of a product, which nobody is told of; models this
      // small let it be seen. For a processor that multiplies in tiles it packs more.
      const double kib = at::native::cpublas::could_pack(at::kBFloat16) ? 40.0 : 24.0;
      const double packed = combination.exact ? 0.0 : kib * 1024.0;
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
