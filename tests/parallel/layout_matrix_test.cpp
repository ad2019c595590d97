// Layouts with several mesh axes train like one rank, send the messages that formulas predict, and
// need the predicted memory. scripts/layout_matrix prints these results as a table.
#include <catch2/catch.hpp>
#include <cmath>

#include "support/layout_table.h"

namespace am {

TEST_CASE("layouts x options") {
  for (const test::Combination& layout : test::third_of_layouts()) {
    DYNAMIC_SECTION(layout.name) {
      const test::Row row = test::run(layout, test::TableSize::kSmall);
      INFO(row.worst_name);
      CHECK(row.gradients <= (layout.exact ? 1e-5 : 3e-2));
      if (layout.exact) CHECK(row.worst <= 1e-3);
      CHECK(row.losses <= (layout.exact ? 1e-5 : 1e-2));
      CHECK(row.norms <= (layout.exact ? 1e-5 : 3e-2));
      CHECK(row.weights <= (layout.exact ? 1e-5 : 3e-2));
      if (layout.has_formula) CHECK(row.sent == row.formula);
      CHECK(row.phases == 0.0);
      const double packed = test::packed_operands(layout);
      CHECK(std::abs(row.peak_dry_run) <= 0.02 + packed / static_cast<double>(row.peak_bytes));
    }
  }
}

TEST_CASE("am-plan predicts the memory of every layout") {
  for (const test::Combination& layout : test::third_of_layouts()) {
    DYNAMIC_SECTION(layout.name) {
      const test::Row row = test::run_for_memory(layout, test::TableSize::kLarge);
      if (layout.skewed) {  // the prediction is an upper bound
        CHECK(row.peak_planner >= 0.0);
        CHECK(row.peak_planner <= 0.03);
      } else {
        CHECK(std::abs(row.peak_planner) <= 0.02);
      }
    }
  }
}

}  // namespace am
