// Tests training in float16. The loss scale prevents gradients from underflowing, so that training
// follows float32's curve under every layout. The loss scale is halved after an overflow, and a
// resumed run continues with the checkpoint's loss scale.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"
#include "support/train_curve.h"

namespace am {
namespace {

std::string policy(const std::string& param, const std::string& reduce) {
  return cat("mp_policy = { param_dtype = \"", param, "\", reduce_dtype = \"", reduce,
             "\", output_dtype = \"float32\" }\n");
}

std::string fsdp2(int64_t world, const std::string& mesh, const std::string& strategy) {
  return cat("[mesh]\nworld_size = ", world, "\n", mesh, "[strategy]\nname = \"fsdp2\"\n",
             strategy);
}

// Writes the config of a model with one layer of width 16 and a vocabulary of 256. Steps of this
// small model take little time even with many labels.
void write_model(const std::filesystem::path& folder) {
  std::ofstream(folder / "config.json")
      << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
 "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 1, "num_key_value_heads": 1,
 "num_hidden_layers": 1, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
 "rope_theta": 10000.0, "tie_word_embeddings": false, "initializer_range": 0.02})";
}

double norm_of_a_step(const std::filesystem::path& model, int64_t sequences,
                      const std::string& strategy) {
  const test::Curve curve = test::train_curve(
      test::parse(cat("[model]\npath = \"", model.string(), "\"\n[train]\nseq_len = 64\n",
                      "global_batch_size = ", sequences, "\nmicro_batch_size = ", sequences,
                      "\nmax_steps = 1\nmax_grad_norm = 0.0\n[data]\nkind = \"synthetic\"\n",
                      fsdp2(1, "", strategy))),
      1);
  return curve.norms.at(0);
}

// Returns a plan that trains with AdamW and a large eps. AdamW's update depends on the magnitude of
// gradients only through eps, so a large eps reveals a loss scale that was not divided out.
std::string loop_plan(const std::string& layout, int64_t micro_batch, int64_t steps,
                      const std::string& more = "") {
  return cat("[model]\npath = \"loop/model\"\n[train]\nseq_len = 16\nglobal_batch_size = 8\n",
             "micro_batch_size = ", micro_batch, "\nmax_steps = ", steps, "\n", more,
             "[optimizer]\nlr = 1e-2\neps = 1e-2\n[data]\nkind = \"tokens\"\n",
             "path = \"loop/tokens.bin\"\nshuffle = false\n", layout);
}

const std::string kFloat16 = policy("float16", "float16");

struct Steps {
  std::vector<observe::StepMetrics> metrics;
  std::string log;
};

// Trains up to step `last`, from the newest checkpoint in the run folder `run` if there is one, and
// saves a checkpoint in `run`. Returns the metrics of rank 0's steps, and the log.
Steps run_steps(const config::Plan& plan, int64_t ranks, const std::filesystem::path& run,
                int64_t last) {
  Steps steps;
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    train::TrainerCallbacks callbacks;
    callbacks.log = [&](const std::string& line) { steps.log += line + "\n"; };
    train::Trainer trainer(job::make_job(plan, *config, world.size()), world,
                           run_folder::RunFolder(run), callbacks);
    for (int64_t step = trainer.first_step(); step < last; ++step) {
      const observe::StepMetrics metrics = trainer.train_step(step);
      if (world.rank() == 0) steps.metrics.push_back(metrics);
    }
    trainer.save(last);
  });
  return steps;
}

}  // namespace

TEST_CASE("a float16 step has float32's gradient, however many labels there are") {
  const TemporaryFolder model;
  write_model(model.path());
  const int64_t sequences = GENERATE(16, 512);  // 1,024 and 32,768 labels
  const double wanted = norm_of_a_step(model.path(), sequences, policy("float32", "float32"));
  REQUIRE(wanted > 0.01);
  const auto check = [&](const std::string& strategy, double tolerance) {
    INFO(sequences << " sequences, " << strategy);
    const double got = norm_of_a_step(model.path(), sequences, strategy);
    CHECK(got == Approx(wanted).epsilon(tolerance).margin(0));
    CHECK(got != wanted);
  };
  check(policy("bfloat16", "float32"), 5e-3);
  check(policy("float16", "float32"), 1e-3);
  check(policy("float16", "float16"), 1e-3);
  check(policy("float32", "float16"), 1e-3);
  check(policy("float32", "float32") + "autocast_dtype = \"float16\"\n", 1e-3);
}

TEST_CASE("float16 trains along float32's curve under every layout") {
  const test::Curve wanted = test::train_curve(
      test::parse(loop_plan(fsdp2(1, "", policy("float32", "float32")), 8, 12)), 1);
  const std::string autocast = policy("float32", "float32") + "autocast_dtype = \"float16\"\n";
  struct Case {
    const char* name;
    int64_t ranks;
    int64_t micro_batch;
    std::string layout;
  };
  const std::string megatron =
      "[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\npreserve_fp32_weights = "
      "true\n";
  const std::vector<Case> cases = {
      {"fsdp2", 2, 4, fsdp2(2, "", kFloat16)},
      {"fsdp2, accumulation, deferred", 2, 1, fsdp2(2, "", kFloat16)},
      {"fsdp2, accumulation, not deferred", 2, 1,
       fsdp2(2, "", kFloat16 + "defer_fsdp_grad_sync = false\n")},
      {"hsdp", 4, 2, fsdp2(4, "dp_replicate_size = 2\n", kFloat16)},
      {"tp", 2, 8, fsdp2(2, "tp_size = 2\n", kFloat16)},
      {"tp, sequence parallel", 2, 8,
       fsdp2(2, "tp_size = 2\n", kFloat16 + "sequence_parallel = true\n")},
      {"autocast", 2, 4, fsdp2(2, "", autocast)},
      {"float16 logits", 2, 4,
       fsdp2(2, "",
             "mp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", "
             "output_dtype = \"float16\" }\n")},
      {"megatron_fsdp", 2, 4, megatron},
  };
  for (const Case& each : cases) {
    DYNAMIC_SECTION(each.name) {
      std::string text = loop_plan(each.layout, each.micro_batch, 12);
      if (each.layout == megatron) {
        text.replace(text.find("[train]"), 7, "dtype = \"float16\"\n[train]");
      }
      const test::Curve got = test::train_curve(test::parse(text), each.ranks);
      for (size_t i = 0; i < wanted.losses.size(); ++i) {
        INFO("step " << i);
        CHECK(got.losses[i] == Approx(wanted.losses[i]).epsilon(i == 0 ? 5e-4 : 5e-3).margin(0));
        CHECK(got.norms[i] == Approx(wanted.norms[i]).epsilon(i == 0 ? 5e-3 : 5e-2).margin(0));
      }
    }
  }
}

TEST_CASE("an overflow skips the step and halves the scale, as a checkpoint remembers") {
  const TemporaryFolder temp;
  const int64_t ranks = GENERATE(1, 2);
  const config::Plan plan =
      test::parse(loop_plan(fsdp2(ranks, "", kFloat16), 4, 40, "max_grad_norm = 0.0\n"));
  // After step 1, the checkpoint is edited to a loss scale of 2^30, with which gradients overflow
  // float16.
  const auto run = temp.path() / "run";
  const Steps begun = run_steps(plan, ranks, run, 1);
  CHECK(begun.metrics.at(0).loss_scale == 65536.0);
  CHECK(begun.metrics.at(0).skipped_steps == 0);
  const auto info = run / "checkpoints/step-1/checkpoint.json";
  Json json = Json::parse(read_file(info));
  CHECK(json["loss_scale"] == Json({{"scale", 65536.0}, {"growth_tracker", 1}}));
  json["loss_scale"] = {{"scale", 0x1p30}, {"growth_tracker", 7}};
  std::ofstream(info) << json.dump();
  const Steps hot = run_steps(plan, ranks, run, 20);
  const auto& metrics = hot.metrics;
  REQUIRE(metrics.size() == 19);
  int64_t skipped = 0;
  int64_t since = 0;  // steps since the last overflow
  double scale = 0x1p30;
  for (const auto& step : metrics) {
    CHECK(std::isfinite(step.loss));
    CHECK(step.loss_scale == scale);
    ++since;
    if (std::isfinite(step.grad_norm)) continue;
    since = 0;
    scale /= 2;
    CHECK(step.skipped_steps == ++skipped);
  }
  CHECK(skipped >= 4);
  CHECK(skipped < 19);
  CHECK(hot.log.find("a gradient overflows float16; the loss scale is now 5.36871e+08") !=
        std::string::npos);
  // The checkpoint stores the number of skipped steps and the loss scale, and a resumed run
  // continues with both.
  json = Json::parse(read_file(run / "checkpoints/step-20/checkpoint.json"));
  CHECK(json["skipped_steps"] == skipped);
  CHECK(json["loss_scale"] == Json({{"scale", scale}, {"growth_tracker", since}}));
  const Steps after = run_steps(plan, ranks, run, 21);
  CHECK(after.metrics.at(0).loss_scale == scale);
  CHECK(after.metrics.at(0).skipped_steps == skipped);
}

TEST_CASE("the scale grows in a run that goes on from a checkpoint") {
  const TemporaryFolder temp;
  const auto run = temp.path() / "run";
  const config::Plan plan = test::parse(loop_plan(fsdp2(2, "", kFloat16), 4, 40));
  run_steps(plan, 2, run, 1);
  const auto info = run / "checkpoints/step-1/checkpoint.json";
  Json json = Json::parse(read_file(info));
  json["loss_scale"] = {{"scale", 256.0}, {"growth_tracker", 1998}};
  std::ofstream(info) << json.dump();
  const Steps grown = run_steps(plan, 2, run, 5);
  std::vector<double> scales;
  for (const auto& step : grown.metrics) scales.push_back(step.loss_scale.value());
  CHECK(scales == std::vector<double>{256.0, 256.0, 512.0, 512.0});
}

TEST_CASE("what scaling cannot mend is on_nonfinite's") {
  const TemporaryFolder temp;
  const std::string fixed = "loss_scale = 1073741824.0\n";
  const auto error_of = [&](const std::string& more) -> std::string {
    try {
      run_steps(test::parse(loop_plan(fsdp2(1, "", kFloat16), 8, 2, more)), 1, temp / "run", 2);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kNumeric);
      return error.what();
    }
    return {};
  };
  CHECK(error_of(fixed).find("the loss scale is 1.07374e+09") != std::string::npos);
  const Steps skipped = run_steps(
      test::parse(loop_plan(fsdp2(1, "", kFloat16), 8, 2, fixed + "on_nonfinite = \"skip\"\n")), 1,
      temp / "skip", 2);
  CHECK(skipped.metrics.at(1).skipped_steps == 2);
}

TEST_CASE("a checkpoint with an impossible loss scale is refused") {
  const TemporaryFolder temp;
  const auto run = temp.path() / "run";
  const config::Plan plan = test::parse(loop_plan(fsdp2(1, "", kFloat16), 8, 4));
  run_steps(plan, 1, run, 1);
  const auto info = run / "checkpoints/step-1/checkpoint.json";
  const Json json = Json::parse(read_file(info));
  const auto refused = [&](const char* key, const Json& value) {
    Json wrong = json;
    wrong[key] = value;
    std::ofstream(info) << wrong.dump();
    CHECK_THROWS_AS(run_steps(plan, 1, run, 2), Error);
  };
  refused("loss_scale", {{"scale", 0.0}, {"growth_tracker", 0}});
  refused("loss_scale", {{"scale", -1.0}, {"growth_tracker", 0}});
  refused("loss_scale", {{"scale", 2.0}, {"growth_tracker", -1}});
  refused("loss_scale", 3);
  refused("skipped_steps", 2);
  refused("skipped_steps", -1);
}

}  // namespace am
