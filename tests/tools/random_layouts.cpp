// Draws random layouts and compares each with one rank, in float64. scripts/layout_matrix --random
// builds and starts this program.
//
//   random_layouts COUNT SEED [NUMBER]
//
// With NUMBER, counted from 0, compares only this layout of the COUNT layouts, and prints its plan.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <random>
#include <string>

#include "am/base/text.h"
#include "am/config/plan.h"
#include "am/train/verify_layout.h"
#include "support/random_layout.h"

int main(int argc, char** argv) {
  const int64_t count = argc > 1 ? std::atoll(argv[1]) : 20;
  const uint64_t seed = argc > 2 ? static_cast<uint64_t>(std::atoll(argv[2])) : 1;
  const int64_t only = argc > 3 ? std::atoll(argv[3]) : -1;
  std::mt19937_64 random(seed);
  int64_t differ = 0;
  int64_t drawn = 0;
  double largest = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const am::test::RandomLayout layout = am::test::draw_layout(random);
    drawn += layout.drawn;
    if (only >= 0 && i != only) continue;
    if (only >= 0) std::cout << am::config::to_toml(layout.plan) << "\n";
    std::string verdict;
    try {
      const auto found = am::train::verify_layout(layout.plan, layout.model, {.steps = 2});
      largest = std::max(largest, found.largest);
      if (const auto& divergence = found.divergence) {
        verdict = am::cat("DIFFERS in step ", divergence->step, ": ", divergence->what, " ",
                          divergence->name, " by ", divergence->difference, " on rank ",
                          divergence->rank);
      }
    } catch (const std::exception& error) {
      verdict = am::cat("FAILS: ", error.what());
    }
    if (!verdict.empty()) ++differ;
    std::cout << i << "  " << layout.name << "  " << (verdict.empty() ? "ok" : verdict)
              << std::endl;
  }
  std::cout << count << " layouts of " << drawn << " drawn, " << differ
            << " differ; the largest difference of the others is " << largest << "\n";
  return differ == 0 ? 0 : 1;
}
