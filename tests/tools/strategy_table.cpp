// Compares strategies and options with one rank, and prints a table of the differences. With
// --layouts, compares layouts with several mesh axes instead. scripts/strategy_table and
// scripts/layout_matrix build and start this program.
//
//   strategy_table [--layouts] [TEXT]      TEXT: compares only rows whose names contain this text
#include "support/strategy_table.h"

#include <cmath>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/term/style.h"
#include "am/term/table.h"
#include "support/layout_table.h"

namespace {

using am::cat;

std::string scientific(double value) {
  return value == 0.0 ? "0" : am::format_scientific(value, 1);
}

std::string percent(double share) {
  if (std::abs(share) < 0.00005) share = 0;
  return cat(share > 0 ? "+" : "", am::format_fixed(100.0 * share, 2), " %");
}

std::string messages(const am::test::Combination& of, const am::test::Row& row) {
  int64_t count = 0;
  int64_t bytes = 0;
  for (const auto& [what, sum] : row.sent) {
    bytes += sum.first;
    count += sum.second;
  }
  return cat(count, ", ", am::format_bytes(bytes),
             !of.has_formula        ? " (no formula)"
             : row.traffic_agrees() ? ""
                                    : " DIFFERS");
}

}  // namespace

int main(int argc, char** argv) {
  using am::term::Align;
  const bool layouts = argc > 1 && std::string_view(argv[1]) == "--layouts";
  const int first = layouts ? 2 : 1;
  const std::string only = argc > first ? argv[first] : "";
  std::vector<am::term::Column> columns = {
      {layouts ? "layout" : "strategy"}, {"ranks", Align::kRight},
      {"gradients", Align::kRight},      {"losses", Align::kRight},
      {"weights", Align::kRight},        {"messages a step", Align::kRight},
      {"peak", Align::kRight},           {"dry run", Align::kRight},
      {"phases", Align::kRight},         {"am-plan", Align::kRight}};
  // The column "worst" contains the difference of the gradient of the parameter that differs most.
  if (layouts) columns.insert(columns.begin() + 3, {"worst", Align::kRight});
  am::term::Table table(columns);
  for (const auto& each : layouts ? am::test::layouts() : am::test::combinations()) {
    if (each.name.find(only) == std::string::npos) continue;
    const am::test::Row row = am::test::run(each, am::test::TableSize::kLarge);
    std::vector<am::term::Cell> cells = {each.name,
                                         cat(each.world),
                                         scientific(row.gradients),
                                         scientific(row.losses),
                                         scientific(row.weights),
                                         messages(each, row),
                                         am::format_bytes(row.peak_bytes),
                                         percent(row.peak_dry_run),
                                         percent(row.phases),
                                         percent(row.peak_planner)};
    if (layouts) cells.insert(cells.begin() + 3, am::term::Cell(scientific(row.worst)));
    table.add(cells);
    if (each.has_formula && !row.traffic_agrees()) {
      for (const auto& [what, sum] : row.sent) {
        std::cout << each.name << ": sent " << what << " " << sum.second << " x, " << sum.first
                  << "\n";
      }
      for (const auto& [what, sum] : row.formula) {
        std::cout << each.name << ": formula " << what << " " << sum.second << " x, " << sum.first
                  << "\n";
      }
    }
  }
  std::cout << table.text(am::term::Style());
}
