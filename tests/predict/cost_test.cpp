// Tests times and memory by formula: clusters, pipelines, communication, and measured runs.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "am/cluster/csv.h"
#include "am/layout/layout.h"
#include "am/model/flops.h"
#include "am/model/layer_profile.h"
#include "am/predict/memory/peak_memory.h"
#include "am/predict/time/prediction.h"
#include "layout/plan_text.h"
#include "model/family_cases.h"

namespace am::predict {
using namespace cluster;

namespace {

using test::layout_of;
using test::model_of;
using test::plan_of;

Workload workload_for(const std::string& text, const std::string& model) {
  const auto plan = plan_of(text, model);
  return workload_of(plan, model_of(model), layout_of(plan, model_of(model)));
}

Gpu gpu(const std::string& name) {
  Diagnostics found;
  const auto gpu = find_gpu(name, {}, {}, found);
  REQUIRE(gpu.has_value());
  return *gpu;
}

TEST_CASE("every cluster is complete, and found by its aliases") {
  REQUIRE(gpu_names().size() >= 17);
  for (const std::string& name : gpu_names()) {
    INFO(name);
    const Gpu one = gpu(name);
    CHECK(one.bf16_flops > 1e14);
    CHECK(one.memory_bandwidth > 5e11);
    CHECK(one.nic_bandwidth > 1e9);
    CHECK(!one.source.empty());
    for (const std::string& alias : one.aliases) CHECK(gpu(alias).name == name);
    CHECK_FALSE(one.aliases.empty());
  }
  CHECK(gpu("H100-80G").name == "h100-sxm");
  CHECK(gpu("h100-sxm").bf16_flops == 989e12);
  CHECK(gpu("h100-sxm").nic_bandwidth == 50e9);
}

TEST_CASE("an unknown GPU names the nearest") {
  Diagnostics found;
  CHECK(!find_gpu("h100-sxn", {}, {}, found));
  REQUIRE(found.items().size() == 1);
  CHECK(found.items()[0].rule == "cluster.gpu");
  CHECK(found.items()[0].help.find("did you mean \"h100-sxm\"") == 0);
}

TEST_CASE("CSV: quotes, empty cells, long rows") {
  using Cells = std::map<std::string, std::string, std::less<>>;
  Diagnostics found;
  const CsvTable table = parse_csv("a,b,c\r\n1,\"x, \"\"y\"\"\",\n\n2,,3.5\n", "t.csv", found);
  CHECK(found.ok());
  REQUIRE(table.rows.size() == 2);
  CHECK(table.columns == std::vector<std::string>{"a", "b", "c"});
  CHECK(table.rows[0].cells == Cells{{"a", "1"}, {"b", "x, \"y\""}});
  CHECK(table.rows[1].cells == Cells{{"a", "2"}, {"c", "3.5"}});
  CHECK(table.rows[1].line == 4);
  parse_csv("a\n1,2\n\"open\n", "t.csv", found);
  CHECK(found.items().size() == 2);
}

TEST_CASE("a pipeline's time is that of all its events") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> near_one(0.8, 1.2);
  for (const std::string_view name : pipeline::schedule_names()) {
    for (const int64_t pp : {2, 4, 8}) {
      for (const int64_t virtual_stages : {1, 2, 4}) {
        const pipeline::PipelineShape shape{std::string(name), pp, virtual_stages, pp * 10};
        if (pipeline::violated_constraint(shape)) continue;
        INFO(name << " pp " << pp << " v " << virtual_stages);
        pipeline::Durations even;
        pipeline::Durations uneven;
        for (int64_t i = 0; i < pp * virtual_stages; ++i) {
          // The last stage contains the head.
          const double more = i + 1 == pp * virtual_stages ? 1.3 : 1.0;
          even.stages.push_back({1.0, 1.0, 1.0});
          uneven.stages.push_back({more, more, more * near_one(random)});
        }
        const PipelineOrder order(shape);
        const auto whole = pipeline::make_schedule(shape);
        CHECK(order.run(even.stages).seconds ==
              Approx(pipeline::simulate(whole, even).makespan).epsilon(1e-9));
        CHECK(order.run(uneven.stages).seconds ==
              Approx(pipeline::simulate(whole, uneven).makespan).epsilon(0.02));
        for (const auto* durations : {&even, &uneven}) {
          CHECK(order.run(durations->stages).seconds >=
                (1.0 - 1e-12) * least_seconds(shape, durations->stages));
        }
      }
    }
  }
}

TEST_CASE("bubble of 1f1b is the textbook's") {
  const pipeline::PipelineShape shape{"1f1b", 4, 1, 32};
  const std::vector<pipeline::StageDurations> stages(4, {1.0, 1.0, 1.0});
  CHECK(PipelineOrder(shape).run(stages).bubble_fraction == Approx(3.0 / 35.0));
}

TEST_CASE("the parts of a step add up to it") {
  const Gpu h100 = gpu("h100-sxm");
  for (const char* mesh : {"[mesh]\nworld_size = 64\ntp_size = 8\n",
                           "[mesh]\nworld_size = 64\ntp_size = 2\npp_size = 4\ncp_size = 2\n"
                           "[train]\nglobal_batch_size = 64\n",
                           "[mesh]\nworld_size = 64\ndp_replicate_size = 8\n"}) {
    const Workload workload = workload_for(mesh, "llama-3.1-8b");
    const StepTime t = estimate_step_time(workload, h100, CostConstants());
    const double sum = t.products + t.attention + t.memory_bound + t.launching + t.tp + t.cp +
                       t.ep + t.pp + t.bubble + t.dp + t.offload + t.optimizer + t.fixed;
    CHECK(sum == Approx(t.seconds));
    CHECK((t.bubble > 0.0) == (workload.pp > 1.0));
    CHECK((t.bytes.tp > 0.0) == (workload.tp > 1.0));
    CHECK((t.bytes.cp > 0.0) == (workload.cp > 1.0));
  }
}

TEST_CASE("families that are only planned: a step computes all products of its layers") {
  // With these constants, every matmul runs at the GPU's peak rate, whatever its sizes.
  CostConstants ideal;
  for (const auto& [constant, value] : {std::pair{Constant::kGemmHopper, 1.0},
                                        {Constant::kMisaligned, 1.0},
                                        {Constant::kHalfTokens, 0.0},
                                        {Constant::kHalfOutput, 0.0},
                                        {Constant::kHalfInput, 0.0},
                                        {Constant::kHalfExpertTokens, 0.0}}) {
    ideal.values[static_cast<size_t>(constant)] = value;
  }
  const auto plan =
      plan_of("[mesh]\nworld_size = 1\n[train]\nseq_len = 16\nglobal_batch_size = 4\n");
  const Gpu h100 = gpu("h100-sxm");
  for (const model::Family* family : model::families()) {
    if (family->runs) continue;
    for (const model::ModelConfig& config : test::family_cases(family->model_type)) {
      INFO(config.text);
      double weights = 0.0;
      for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
        const model::LayerProfile profile = model::layer_profile(config, layer);
        const model::FeedForwardProfile& f = profile.feed_forward;
        // The time model leaves out the products of routers.
        const auto router = static_cast<double>(f.experts + (f.shared_gate ? 1 : 0));
        weights += model::layer_matmul_parameters(profile, config.hidden_size) -
                   router * static_cast<double>(config.hidden_size);
      }
      const Workload workload = workload_of(plan, config, layout_of(plan, config));
      const StepTime time = estimate_step_time(workload, h100, ideal);
      CHECK(time.products * h100.bf16_flops > 6.0 * 16 * 4 * weights);
      const auto step = static_cast<double>(16 * 4) * model::train_flops_per_token(config, 16);
      const double usual =
          estimate_step_time(workload, h100, default_calibration().constants).seconds;
      CHECK(step / (usual * h100.bf16_flops) < 1.0);  // the MFU
    }
  }
}

TEST_CASE("communication is what the formulas say") {
  const Workload workload = workload_for(
      "[mesh]\nworld_size = 16\ntp_size = 2\n"
      "[train]\nseq_len = 4096\nglobal_batch_size = 16\n",
      "llama-3.1-8b");
  const StepTime time = estimate_step_time(workload, gpu("h100-sxm"), CostConstants());
  // Each of the 32 layers runs 2 all-reduces in forward and 2 in backward, in each of 2
  // micro-batches. An all-reduce has 4096 tokens of 4096 (the hidden size) bfloat16 values. Among 2
  // ranks, each rank sends half of the bytes twice.
  CHECK(time.bytes.tp == Approx(2.0 * 32 * 2 * 4 * 4096.0 * 4096 * 2 * 0.5));
}

TEST_CASE("frozen layers cost no backward, gradients or updates") {
  const auto time = [](const std::string& frozen) {
    const Workload workload =
        workload_for(cat("freeze_params = [", frozen, "]\n[mesh]\nworld_size = 16\n",
                         "tp_size = 2\n[train]\nglobal_batch_size = 16\n"),
                     "llama-3.1-8b");
    return estimate_step_time(workload, gpu("h100-sxm"), CostConstants());
  };
  const StepTime all = time("");
  const StepTime half = time(
      "\"model.embed_tokens.*\", \"model.layers.[0-9].*\", "
      "\"model.layers.1[0-5].*\"");
  const StepTime top = time("\"model.*\"");
  // The backward of attention takes 2.5 times as long as its forward.
  CHECK(half.attention == Approx(all.attention * (3.5 - 1.25) / 3.5));
  CHECK(half.bytes.tp == Approx(all.bytes.tp * 1.5 / 2.0));
  CHECK(half.optimizer < all.optimizer * 0.55);
  CHECK(top.attention == Approx(all.attention / 3.5));
  CHECK(top.bytes.dp < all.bytes.dp / 2.0);
  CHECK(top.seconds < half.seconds);
  // A frozen layer in the middle still computes the gradient of its input.
  const StepTime middle = time("\"model.layers.5.*\"");
  CHECK(middle.attention == Approx(all.attention));
  CHECK(middle.products < all.products);
}

TEST_CASE("what FSDP ignores is reduced whole and updated everywhere") {
  const auto time = [](const std::string& ignored) {
    const Workload workload =
        workload_for(cat("[mesh]\nworld_size = 16\n[strategy]\nignored_params = [", ignored,
                         "]\n[train]\nglobal_batch_size = 16\n"),
                     "llama-3.1-8b");
    return estimate_step_time(workload, gpu("h100-sxm"), CostConstants());
  };
  const StepTime none = time("");
  const StepTime all = time("\"*\"");
  CHECK(all.optimizer == Approx(16.0 * none.optimizer).epsilon(0.01));
  // Two gathers in bfloat16 and a float32 reduction take as many bytes as a float32 all-reduce.
  CHECK(all.bytes.dp == Approx(none.bytes.dp).epsilon(0.01));
  CHECK(time("\"*mlp*\"").optimizer > 8.0 * none.optimizer);
}

TEST_CASE("more GPUs of the same kind are not slower, better ones are faster") {
  const auto seconds = [](const std::string& mesh, const std::string& name) {
    return estimate_step_time(workload_for(mesh, "llama-3.1-8b"), gpu(name),
                              default_calibration().constants)
        .seconds;
  };
  const std::string batch = "[train]\nglobal_batch_size = 64\n";
  const double eight = seconds("[mesh]\nworld_size = 8\n" + batch, "h100-sxm");
  CHECK(seconds("[mesh]\nworld_size = 16\n" + batch, "h100-sxm") < eight);
  CHECK(seconds("[mesh]\nworld_size = 8\n" + batch, "a100-sxm") > eight);
  CHECK(seconds("[mesh]\nworld_size = 8\n" + batch, "b200-sxm") < eight);
}

TEST_CASE("no run that fitted is called impossible, none that did not is called fitting") {
  int out_of_memory = 0;
  for (const MeasuredRun& run : built_in_runs()) {
    const Fit verdict =
        fit_into(*run.workload.implementation, worst_peak_memory(run.workload).total(), run.gpu);
    INFO(run.id);
    if (run.out_of_memory) {
      ++out_of_memory;
      CHECK(verdict != Fit::kFits);
    } else if (run.seconds) {
      CHECK(verdict != Fit::kTooLarge);
    }
  }
  CHECK(out_of_memory == 6);
}

TEST_CASE("Megatron's states are 18 bytes a parameter, 6 and 12 over dp when cut") {
  Workload workload = workload_for(
      "[mesh]\nworld_size = 8\n[cluster]\nimplementation = \"megatron\"\n", "llama-3.1-8b");
  workload.sharding = Sharding::kReplicated;
  const double parameters = workload.layout.parameters_of(0).dense;
  CHECK(estimate_peak_memory(workload, 0).states() == Approx(18.0 * parameters));
  workload.sharding = Sharding::kOptimizer;
  CHECK(estimate_peak_memory(workload, 0).states() == Approx((6.0 + 12.0 / 8.0) * parameters));
}

TEST_CASE("a prediction has an interval and the runs that are nearest") {
  const auto plan = plan_of(
      "[mesh]\nworld_size = 8\n[train]\nseq_len = 8192\n"
      "micro_batch_size = 2\n[strategy]\nactivation_checkpointing = "
      "\"selective\"\n[cluster]\ngpu = \"h100-96g-hbm2e-500w\"\n"
      "implementation = \"torchtitan\"\n",
      "llama-3.1-8b");
  Diagnostics found;
  const auto model = model_of("llama-3.1-8b");
  const auto prediction = predict_step(plan, model, layout_of(plan, model), 3, found);
  REQUIRE(prediction.has_value());
  REQUIRE(prediction->interval.has_value());
  CHECK(prediction->basis.empty());
  CHECK(prediction->interval->low < prediction->time.seconds);
  CHECK(prediction->interval->high > prediction->time.seconds);
  REQUIRE(prediction->nearest.size() == 3);
  CHECK(prediction->nearest[0].run.source == "torchtitan benchmarks 2024-12");
  CHECK(prediction->nearest[0].distance <= prediction->nearest[1].distance);
  // torchtitan measured 6667 tokens/s per GPU with torch.compile.
  CHECK(prediction->tokens_per_second_per_gpu == Approx(6667.0).epsilon(0.2));
}

TEST_CASE("an interval is wider for a GPU or an implementation without measured runs") {
  const auto predicted = [](const std::string& cluster, const std::string& model) {
    const auto plan = plan_of("[mesh]\nworld_size = 8\n[cluster]\n" + cluster, model);
    Diagnostics found;
    const auto config = model_of(model);
    auto prediction = predict_step(plan, config, layout_of(plan, config), 1, found);
    REQUIRE(prediction.has_value());
    return *std::move(prediction);
  };
  const auto width = [](const Prediction& prediction) {
    return prediction.interval->high / prediction.interval->low;
  };
  const Prediction known =
      predicted("gpu = \"h100-sxm\"\nimplementation = \"nemo\"\n", "llama-3.1-8b");
  REQUIRE(known.interval.has_value());
  CHECK(known.basis.empty());

  const Prediction unseen = predicted("gpu = \"h100-sxm\"\n", "llama-3.1-8b");
  REQUIRE(unseen.interval.has_value());
  CHECK(width(unseen) > width(known));
  CHECK_THAT(unseen.basis, Catch::Contains("No run of automesh was measured"));

  const Prediction elsewhere =
      predicted("gpu = \"mi300x\"\nimplementation = \"nemo\"\n", "llama-3.1-8b");
  CHECK_FALSE(elsewhere.interval.has_value());
  CHECK_THAT(elsewhere.basis, Catch::Contains("architecture of mi300x was measured"));

  // No run on an H800 was measured, but runs on other Hopper GPUs were.
  const Prediction sibling =
      predicted("gpu = \"h800-sxm\"\nimplementation = \"nemo\"\n", "llama-3.1-8b");
  REQUIRE(sibling.interval.has_value());
  CHECK(width(sibling) > width(known));
  CHECK_THAT(sibling.basis, Catch::Contains("on h800-sxm was measured"));
  CHECK(width(predicted("gpu = \"h800-sxm\"\n", "llama-3.1-8b")) >= width(unseen));

  const Prediction experts =
      predicted("gpu = \"h100-sxm\"\nimplementation = \"maxtext\"\n", "mixtral-8x7b-v0.1");
  CHECK_THAT(experts.basis, Catch::Contains("with experts"));

  // Errors of models with experts, and errors on new GPUs, are larger.
  const auto nemo = [&](const char* gpu, const char* model) {
    return width(predicted(cat("gpu = \"", gpu, "\"\nimplementation = \"nemo\"\n"), model));
  };
  CHECK(nemo("h100-sxm", "mixtral-8x7b-v0.1") > 1.2 * nemo("h100-sxm", "llama-3.1-8b"));
  CHECK(nemo("gb200", "llama-3.1-8b") > 1.2 * nemo("h100-sxm", "llama-3.1-8b"));
}

TEST_CASE("matrix products are slower on a Blackwell GPU with a lower power limit") {
  Diagnostics found;
  auto gpu = cluster::find_gpu("gb300", {}, {}, found);
  REQUIRE(gpu.has_value());
  const auto plan = plan_of("[mesh]\nworld_size = 8\n[cluster]\ngpu = \"gb300\"\n", "llama-3.1-8b");
  const auto model = model_of("llama-3.1-8b");
  const Workload workload = workload_of(plan, model, layout_of(plan, model));
  const auto products = [&](double watts) {
    gpu->watts = watts;
    return estimate_step_time(workload, *gpu, default_calibration().constants).products;
  };
  CHECK(products(1000.0) > 1.1 * products(1400.0));
  // If no power limit is known, the prediction assumes the watts per FLOP/s of a B200.
  CHECK(products(0.0) == Approx(products(1000.0 / 2250e12 * gpu->bf16_flops)));
}

}  // namespace
}  // namespace am::predict
