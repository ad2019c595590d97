#include "am/layout/stages.h"

#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "am/base/file.h"
#include "am/predict/time/prediction.h"
#include "am/rules/check.h"
#include "layout/plan_text.h"
#include "support/folders.h"

using am::Diagnostics;
using am::layout::stages_of_even_costs;
using am::test::ids;
using am::test::model_of;
using am::test::plan_of;

namespace {

// Returns the cost of the most expensive stage, and the sum of the stages' squared costs. `last` is
// an additional cost of the last stage.
std::pair<double, double> weight_of(const std::vector<int>& stage_of,
                                    const std::vector<double>& costs, double last, int64_t stages) {
  std::vector<double> sums(static_cast<size_t>(stages), 0.0);
  for (size_t layer = 0; layer < costs.size(); ++layer) {
    sums[static_cast<size_t>(stage_of[layer])] += costs[layer];
  }
  sums.back() += last;
  double squares = 0.0;
  for (const double sum : sums) squares += sum * sum;
  return {*std::max_element(sums.begin(), sums.end()), squares};
}

// Returns the least weight_of() over all splits of the layers.
std::pair<double, double> best_by_trying(const std::vector<double>& costs, double last,
                                         int64_t stages) {
  std::pair<double, double> best(std::numeric_limits<double>::infinity(), 0.0);
  const size_t cuts = costs.size() - 1;
  for (size_t bits = 0; bits < size_t{1} << cuts; ++bits) {
    if (__builtin_popcountll(bits) != stages - 1) continue;
    std::vector<int> stage_of = {0};
    for (size_t cut = 0; cut < cuts; ++cut) {
      stage_of.push_back(stage_of.back() + static_cast<int>(bits >> cut & 1));
    }
    best = std::min(best, weight_of(stage_of, costs, last, stages));
  }
  return best;
}

// Schedule of two ranks with two stages each and four micro-batches. Rank 1 runs the first and the
// last stage.
const std::string kOwn = am::cat(am::test::kSourceFolder, "/tests/data/schedules/own.csv");

std::string own_plan(const std::string& keys) {
  return am::cat("[mesh]\nworld_size = 2\npp_size = 2\n[pipeline]\nschedule = \"", kOwn, "\"\n",
                 keys);
}

std::vector<std::string> findings(const std::string& toml) {
  Diagnostics found;
  am::rules::check(plan_of(toml), 0, found);
  std::vector<std::string> out;
  for (const auto& item : found.items()) {
    out.push_back(am::cat(item.rule, ": ", item.message, "; ", item.help));
  }
  return out;
}

}  // namespace

TEST_CASE("stages of even costs are as even as any") {
  std::mt19937 random(7);  // NOLINT(*-msc51-cpp): repeatable
  const auto between = [&random](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t layers = between(1, 11);
    const int64_t stages = between(1, layers);
    std::vector<double> costs;
    for (int64_t i = 0; i < layers; ++i) costs.push_back(static_cast<double>(between(0, 6)));
    const auto last = static_cast<double>(between(0, 9));
    const std::vector<int> found = stages_of_even_costs(costs, last, stages);
    REQUIRE(found.size() == costs.size());
    CHECK(found.front() == 0);
    CHECK(found.back() == stages - 1);
    for (size_t i = 1; i < found.size(); ++i) {
      CHECK((found[i] == found[i - 1] || found[i] == found[i - 1] + 1));
    }
    CHECK(weight_of(found, costs, last, stages) == best_by_trying(costs, last, stages));
  }
}

TEST_CASE("balance by cost gives the stage with the head fewer layers") {
  const std::string mesh = "[mesh]\nworld_size = 4\npp_size = 4\n[pipeline]\nbalance = \"cost\"\n";
  // gemma-2-2b has 26 layers. Its head, over a vocabulary of 256,000 tokens, costs as much as about
  // seven layers.
  const auto stage_of =
      am::layout::stage_of_layers(plan_of(mesh, "gemma-2-2b"), model_of("gemma-2-2b"), 4);
  std::vector<int64_t> layers(4, 0);
  for (const int stage : stage_of) ++layers[static_cast<size_t>(stage)];
  CHECK(layers == std::vector<int64_t>{9, 8, 8, 1});
  // Split points take precedence over the balance, with a warning.
  const auto given = plan_of(mesh + "split_points = [6, 13, 20]\n", "gemma-2-2b");
  CHECK(am::layout::stage_of_layers(given, model_of("gemma-2-2b"), 4)[6] == 1);
  Diagnostics found;
  am::rules::check(given, 0, found);
  CHECK(ids(found) == std::vector<std::string>{"pp.balance"});
}

TEST_CASE("a schedule of one's own is the plan's") {
  const auto plan = plan_of(own_plan("virtual_stages = 2\n"));
  const auto shape = am::layout::pipeline_shape(plan.pipeline, 2);
  REQUIRE(shape.own != nullptr);
  CHECK_FALSE(am::pipeline::violated_constraint(shape));
  CHECK(am::pipeline::make_schedule(shape).ranks == shape.own->ranks);
  const auto layout = am::test::layout_of(plan, model_of("llama-3.1-8b"));
  CHECK(layout.stage_owners == std::vector<int64_t>{1, 0, 0, 1});
  // At rank 1's peak, three micro-batches are in flight in stage 0 and two in stage 3.
  const auto lists = am::layout::executed_lists(shape);
  REQUIRE(lists != nullptr);
  CHECK(am::pipeline::in_flight_by_stage((*lists)[1], 4) == std::vector<int64_t>{3, 0, 0, 2});
}

TEST_CASE("what is wrong with a schedule's file or its sizes") {
  CHECK(findings(own_plan("virtual_stages = 2\n")).empty());
  CHECK(findings(own_plan("")) ==
        std::vector<std::string>{am::cat("pp.virtual_stages: ", kOwn,
                                         " has 2 stages on each rank, but virtual_stages = 1; "
                                         "virtual_stages = 2")});
  CHECK(findings(own_plan("virtual_stages = 2\nmicrobatches = 8\n")) ==
        std::vector<std::string>{
            am::cat("pp.schedule: ", kOwn,
                    " is a schedule of 4 micro-batches, but microbatches = 8; microbatches = 4")});
  const std::string three =
      am::cat("[mesh]\nworld_size = 3\npp_size = 3\n[pipeline]\nschedule = \"", kOwn,
              "\"\nvirtual_stages = 2\nmicrobatches = 4\n", "split_points = [6, 12, 18, 24, 30]\n");
  CHECK(findings(three) ==
        std::vector<std::string>{am::cat("pp.schedule_file: ", kOwn,
                                         " is a schedule for 2 ranks, but pp_size = 3; "
                                         "schedule = \"1f1b\"")});
  CHECK(findings("[mesh]\nworld_size = 2\npp_size = 2\n[pipeline]\nschedule = \"no/such.csv\"\n") ==
        std::vector<std::string>{
            "pp.schedule_file: no/such.csv cannot be read; paths are relative to the plan file"});
}
