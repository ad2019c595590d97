// Tests that the results of a search agree with the predictions of am-plan cost and am-plan memory,
// and that the search misses no faster plan.
#include "am/predict/search/search.h"

#include <catch2/catch.hpp>
#include <map>
#include <utility>

#include "am/predict/memory/stage_memory.h"
#include "am/predict/time/goodput.h"
#include "am/predict/time/prediction.h"
#include "am/rules/check.h"
#include "layout/plan_text.h"

namespace am::predict {
using namespace cluster;
using namespace rules;

namespace {

using test::model_of;

SearchRequest request_of(const std::string& model, int64_t gpus, const std::string& gpu) {
  Diagnostics found;
  SearchRequest request{.model = model_of(model)};
  request.model_path = am::test::model_folder(model);
  request.gpus = gpus;
  request.gpu = *find_gpu(gpu, {}, {}, found);
  request.gpu_name = gpu;
  request.top = 4;
  return request;
}

// Checks that the found plan passes the rules, and that the step time, MFU and memory that the
// search returns equal the predictions for the plan.
void hold_found(const FoundLayout& layout) {
  Diagnostics found;
  const CheckedPlan checked = check(layout.plan, 0, found);
  REQUIRE(found.ok());
  const auto prediction = predict_step(layout.plan, *checked.model, *checked.layout, 0, found);
  REQUIRE(prediction.has_value());
  CHECK(layout.step_seconds == Approx(prediction->time.seconds));
  CHECK(layout.mfu == Approx(prediction->mfu));
  const auto stages = memory_of_stages(layout.plan, *checked.model, *checked.layout);
  CHECK(layout.peak_bytes == peak_of(stages).components.total());
}

void hold_found(const SearchResult& result) {
  REQUIRE(!result.layouts.empty());
  double before = 0.0;
  for (const FoundLayout& layout : result.layouts) {
    hold_found(layout);
    CHECK(layout.step_seconds >= before);
    before = layout.step_seconds;
  }
  CHECK(result.considered >= result.feasible);
}

TEST_CASE("what is found passes the rules and costs what cost and memory say") {
  for (const char* model : {"llama-3.1-8b", "qwen3-30b-a3b"}) {
    hold_found(search(request_of(model, 16, "h100-sxm"), default_calibration()));
  }
}

TEST_CASE("megatron: what is found passes the rules and costs what cost and memory say") {
  for (const char* model : {"llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v2-lite"}) {
    INFO(model);
    SearchRequest request = request_of(model, 16, "h100-sxm");
    request.strategy = "megatron";
    request.implementation = find_implementation("megatron");
    request.global_batch_size = 2;  // fewer micro-batches than stages in some layouts
    request.top = 12;
    const SearchResult result = search(request, default_calibration());
    hold_found(result);
    bool recomputes = false;
    bool has_few = false;
    bool cuts_experts = false;
    for (const FoundLayout& layout : result.pareto) {
      hold_found(layout);
      recomputes = recomputes || config::checkpointing_of(layout.plan.strategy) !=
                                     config::ActivationCheckpointing::kOff;
    }
    for (const FoundLayout& layout : result.layouts) {
      const auto& megatron = std::get<config::MegatronConfig>(layout.plan.strategy);
      const int64_t pp = layout.plan.mesh.pp_size;
      has_few = has_few || (pp > 1 && layout.plan.pipeline.microbatches < pp);
      cuts_experts = cuts_experts || (megatron.etp_size == 0 && layout.plan.mesh.tp_size > 1);
      CHECK(megatron.params_dtype == "bfloat16");
    }
    CHECK(recomputes);
    CHECK(has_few);
    CHECK(cuts_experts);
    request.top = 1;
    CHECK(search(request, default_calibration()).layouts.front().step_seconds ==
          result.layouts.front().step_seconds);
  }
}

TEST_CASE("failures of found layouts cost what each layout's own checkpoint costs") {
  for (const auto& [model, top] :
       {std::pair{"llama-3.2-1b", 1000}, std::pair{"qwen3-30b-a3b", 6}}) {
    SearchRequest request = request_of(model, 16, "h100-sxm");
    request.strategy = "all";
    request.hours_between_failures = 200.0;
    request.storage_gb_per_s = 2.0;
    request.top = top;
    const SearchResult result = search(request, default_calibration());
    REQUIRE(result.layouts.size() >= 6);
    for (size_t i = 0; i < result.layouts.size(); i += result.layouts.size() / 6) {
      const FoundLayout& layout = result.layouts[i];
      Diagnostics found;
      const CheckedPlan checked = check(layout.plan, 0, found);
      REQUIRE(found.ok());
      const auto losses = failure_losses(layout.plan, *checked.layout, request.gpu);
      REQUIRE(losses.has_value());
      const SaveInterval best = best_interval(layout.step_seconds, *losses);
      CHECK(layout.goodput == best.goodput);
      CHECK(layout.plan.checkpoint.every == best.steps);
    }
  }
}

TEST_CASE("a model that is too large for the GPUs fits nowhere, and why is counted") {
  const SearchResult result =
      search(request_of("llama-3.1-405b", 8, "a100-sxm"), default_calibration());
  CHECK(result.layouts.empty());
  CHECK(result.feasible == 0);
  int64_t dropped = 0;
  for (const auto& [reason, count] : result.dropped) dropped += count;
  CHECK(dropped >= result.considered);
  CHECK(result.dropped.count("parameters, gradients and optimizer do not fit") == 1);
}

TEST_CASE("the first of one layout is the first of a thousand") {
  struct Case {
    const char* model;
    int64_t gpus;
    const char* gpu;
    int64_t seq_len;
    int64_t batch;
  };
  for (const Case& one : {Case{"llama-3.1-8b", 16, "h100-sxm", 4096, 64},
                          Case{"llama-3.1-8b", 8, "a100-sxm", 8192, 32},
                          Case{"llama-3.1-70b", 64, "h100-sxm", 4096, 128},
                          Case{"qwen3-30b-a3b", 32, "h100-sxm", 4096, 256},
                          Case{"llama-2-13b", 24, "a100-sxm", 4096, 96}}) {
    INFO(one.model << " on " << one.gpus);
    const auto first = [&](int64_t top) {
      SearchRequest request = request_of(one.model, one.gpus, one.gpu);
      request.seq_len = one.seq_len;
      request.global_batch_size = one.batch;
      request.top = top;
      return search(request, default_calibration()).layouts.front().step_seconds;
    };
    CHECK(first(1) == first(1000));
  }
}

TEST_CASE("the Pareto front gets faster as it takes more memory") {
  SearchRequest request = request_of("llama-3.1-70b", 64, "h100-sxm");
  const SearchResult result = search(request, default_calibration());
  REQUIRE(result.pareto.size() >= 2);
  CHECK(result.pareto.front().peak_bytes < result.pareto.back().peak_bytes);
  CHECK(result.pareto.front().step_seconds > result.pareto.back().step_seconds);
}

TEST_CASE("precisions are an axis of the search") {
  using config::Fp8Recipe;
  SearchRequest request = request_of("llama-3.1-8b", 16, "b200-sxm");
  request.strategy = "megatron";
  request.implementation = find_implementation("megatron-bridge");
  request.tp_sizes = {1, 2};
  request.pp_sizes = request.cp_sizes = {1};
  request.recipes = {Fp8Recipe::kNone, Fp8Recipe::kMxfp8, Fp8Recipe::kRowwise};
  request.top = 1000;
  const SearchResult all = search(request, default_calibration());
  hold_found(all);
  std::map<Fp8Recipe, double> best;
  for (const FoundLayout& layout : all.layouts) {
    best.emplace(config::fp8_of(layout.plan.strategy), layout.step_seconds);
  }
  CHECK(best.size() == 2);  // Megatron has no recipe "rowwise"
  for (const auto& [recipe, seconds] : best) {
    request.recipes = {recipe};
    CHECK(search(request, default_calibration()).layouts.front().step_seconds == seconds);
  }
  CHECK(best[Fp8Recipe::kMxfp8] < best[Fp8Recipe::kNone]);
  request = request_of("llama-3.1-8b", 16, "h100-sxm");
  request.recipes = {Fp8Recipe::kMxfp8};
  CHECK(search(request, default_calibration()).layouts.empty());
}

TEST_CASE("every strategy can be searched") {
  SearchRequest request = request_of("llama-3.2-1b", 8, "a100-sxm");
  for (const char* strategy : {"fsdp2", "megatron_fsdp", "ddp"}) {
    request.strategy = strategy;
    const SearchResult result = search(request, default_calibration());
    INFO(strategy);
    REQUIRE(!result.layouts.empty());
    CHECK(config::strategy_name(result.layouts.front().plan.strategy) == std::string(strategy));
  }
}

}  // namespace
}  // namespace am::predict
