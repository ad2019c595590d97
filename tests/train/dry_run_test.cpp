// A dry run reports the memory and the collectives of a real step.
#include "am/train/dry_run.h"

#include <ATen/ATen.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/record_function.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <mutex>

#include "am/base/text.h"
#include "am/predict/memory/memory.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/published_model.h"

namespace am {
namespace {

using tensor::TensorUse;
using Counts = std::map<std::string, std::pair<int64_t, int64_t>>;  // "op group": bytes, count

struct Seen {
  tensor::MemoryBytes peak;
  Counts counts;
};

// Switches oneDNN off, and restores the previous setting on destruction.
class WithoutOneDnn {
 public:
  WithoutOneDnn() { at::globalContext().setUserEnabledMkldnn(false); }
  ~WithoutOneDnn() { at::globalContext().setUserEnabledMkldnn(before_); }
  WithoutOneDnn(const WithoutOneDnn&) = delete;
  WithoutOneDnn& operator=(const WithoutOneDnn&) = delete;

 private:
  bool before_ = at::globalContext().userEnabledMkldnn();
};

// Returns each rank's peak memory over two real steps, and its collectives in the second step.
std::map<int64_t, Seen> real_step(const config::Plan& plan, int64_t ranks) {
  std::map<int64_t, Seen> seen;
  std::mutex mutex;
  const auto nowhere = std::filesystem::temp_directory_path() / "am-no-such-run";
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    Seen mine;
    const tensor::MemoryMeter meter;
    train::Trainer trainer(job::make_job(plan, *config, world.size()), world,
                           run_folder::RunFolder(nowhere), {});
    trainer.train_step(0);
    world.context()->on_collective = [&](const runtime::Collective& collective, int64_t bytes) {
      auto& [sum, count] = mine.counts[cat(collective.op, " ", collective.group)];
      sum += bytes;
      ++count;
    };
    trainer.train_step(1);
    world.context()->on_collective = nullptr;
    mine.peak = meter.peak();
    const std::lock_guard lock(mutex);
    seen[world.rank()] = mine;
  });
  return seen;
}

Seen dry_step(const config::Plan& plan, int64_t ranks, int64_t rank) {
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  const train::DryRun run = train::dry_run(job::make_job(plan, *config, ranks), rank);
  Seen seen{run.peak, {}};
  for (const auto& each : run.collectives) {
    seen.counts[cat(each.op, " ", each.group)] = {each.bytes, each.count};
  }
  return seen;
}

config::Plan plan_of(const test::LayoutCase& layout) {
  return test::parse(cat("[model]\npath = \"loop/model\"\n[train]\nseq_len = 256\n",
                         "micro_batch_size = 16\nglobal_batch_size = 64\nmax_steps = 2\n",
                         "[data]\nkind = \"synthetic\"\n", layout.toml));
}

}  // namespace

TEST_CASE("a dry run is a step without its contents") {
  // On some processors, oneDNN's products need scratch memory. A dry run does not report this
  // memory, which can move the peak to another moment of the step.
  const WithoutOneDnn products_of_aten;
  const std::vector<test::LayoutCase> layouts = {
      {"one rank", 1, "[mesh]\nworld_size = 1\n"},
      {"fsdp2 on 2", 2, "[mesh]\nworld_size = 2\n"},
      {"fsdp2 on 2, not deferred", 2,
       "[mesh]\nworld_size = 2\n[strategy]\ndefer_fsdp_grad_sync = false\n"},
      {"hsdp 2 x 2, prefetch", 4,
       "[mesh]\nworld_size = 4\ndp_replicate_size = 2\n[strategy]\nenable_fsdp2_prefetch = true\n"},
      {"tp 2 x fsdp2 2, sequence parallel", 4,
       "[mesh]\nworld_size = 4\ntp_size = 2\n[strategy]\nsequence_parallel = true\n"},
      {"ddp on 2", 2, "[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\n"},
      {"megatron_fsdp 1 on 2", 2,
       "[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\nzero_dp_strategy = 1\n"},
      {"megatron_fsdp 3 on 4", 4, "[mesh]\nworld_size = 4\n[strategy]\nname = \"megatron_fsdp\"\n"},
  };
  for (const auto& layout : layouts) {
    const config::Plan plan = plan_of(layout);
    for (const auto& [rank, real] : real_step(plan, layout.ranks)) {
      INFO(layout.name << ", rank " << rank);
      const Seen dry = dry_step(plan, layout.ranks, rank);
      CHECK(dry.counts == real.counts);
      for (const TensorUse use :
           {TensorUse::kParameters, TensorUse::kGradients, TensorUse::kOptimizer}) {
        INFO("use " << static_cast<int>(use));
        CHECK(dry.peak.of(use) == real.peak.of(use));
      }
      // The measured peak can be larger, for two reasons. The meter observes this thread only, so
      // tensors of tp collectives still count after one of Gloo's threads has freed them. And a dry
      // run does not report the scratch memory of ATen's attention kernel, which includes copies of
      // keys and values on processors that multiply bfloat16 matrix tiles (AMX).
      const double kib = at::native::cpublas::could_pack(at::kBFloat16) ? 640.0 : 128.0;
      const double workspace = kib * 1024.0;
      const auto measured = static_cast<double>(real.peak.total());
      const bool tensor_parallel = layout.toml.find("tp_size") != std::string::npos;
      CHECK(static_cast<double>(dry.peak.total()) <= 1.01 * measured);
      CHECK(static_cast<double>(dry.peak.total()) >=
            (tensor_parallel ? 0.8 : 0.9999) * measured - workspace);
    }
  }
}

TEST_CASE("rounds that repeat are multiplied as if each were gone through") {
  struct Case {
    std::string toml;
    int64_t ranks, round;  // `round`: sequences of one round, on all ranks
  };
  const Case cases[] = {
      {"[mesh]\nworld_size = 1\n", 1, 8},
      {"[mesh]\nworld_size = 2\n", 2, 16},
      {"[mesh]\nworld_size = 2\n[strategy]\ndefer_fsdp_grad_sync = false\n", 2, 16},
      {"[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\n", 2, 16},
      {"[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\nzero_dp_strategy = 1\n", 2,
       16},
      {"[mesh]\nworld_size = 4\ntp_size = 2\n[strategy]\nsequence_parallel = true\n"
       "enable_fsdp2_prefetch = true\n",
       4, 16},
      {"[mesh]\nworld_size = 4\npp_size = 2\n[pipeline]\nschedule = \"1f1b\"\n"
       "microbatches = 2\n",
       4, 32},
  };
  for (const Case& each : cases) {
    for (const int64_t rounds : {3, 4, 7}) {
      INFO(each.toml << rounds << " rounds");
      config::Plan plan = test::parse(
          cat("[model]\npath = \"loop/model\"\n[train]\nseq_len = 32\nmicro_batch_size = 8\n",
              "max_steps = 2\n[data]\nkind = \"synthetic\"\n", each.toml));
      plan.train.global_batch_size = each.round * rounds;
      Diagnostics found;
      const auto config = model::load_config(plan.resolve(plan.model.path), found);
      const job::Job job = job::make_job(plan, *config, each.ranks);
      for (int64_t rank = 0; rank < each.ranks; ++rank) {
        const train::DryRun some = train::dry_run(job, rank);
        const train::DryRun all = train::dry_run(job, rank, rounds);
        CHECK(some.peak.bytes == all.peak.bytes);
        REQUIRE(some.collectives.size() == all.collectives.size());
        for (size_t i = 0; i < all.collectives.size(); ++i) {
          INFO(all.collectives[i].op << " in " << all.collectives[i].group);
          CHECK(some.collectives[i].group == all.collectives[i].group);
          CHECK(some.collectives[i].count == all.collectives[i].count);
          CHECK(some.collectives[i].bytes == all.collectives[i].bytes);
        }
        REQUIRE(some.phases.size() == all.phases.size());
        for (size_t i = 0; i < all.phases.size(); ++i) {
          CHECK(some.phases[i].live_bytes == all.phases[i].live_bytes);
        }
      }
    }
  }
}

namespace {

// Number of embedding look-ups; each micro-batch has one.
int64_t embedded = 0;

std::unique_ptr<at::ObserverContext> count_embedding(const at::RecordFunction& function) {
  embedded += std::string_view(function.name()) == "aten::embedding" ? 1 : 0;
  return nullptr;
}

}  // namespace

TEST_CASE("three rounds are walked, however many a step has") {
  const auto walked = [](int64_t rounds) {
    config::Plan plan = test::parse(
        "[model]\npath = \"loop/model\"\n[train]\nseq_len = 32\nmicro_batch_size = 8\n"
        "max_steps = 2\n[data]\nkind = \"synthetic\"\n[mesh]\nworld_size = 1\n");
    plan.train.global_batch_size = 8 * rounds;
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    const job::Job job = job::make_job(plan, *config, 1);
    embedded = 0;
    const auto handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback(count_embedding).scopes({at::RecordScope::FUNCTION}));
    train::dry_run(job, 0);
    at::removeCallback(handle);
    return embedded;
  };
  CHECK(walked(2) == 2 * 2);  // two steps, because the first step also allocates optimizer states
  CHECK(walked(3) == 2 * 3);
  CHECK(walked(4) == 3 + 2 + 3);  // steps of 3 and 2 rounds differ by one round's messages
  CHECK(walked(int64_t{1} << 40) == 3 + 2 + 3);
}

TEST_CASE("am-plan's peak is a dry run's, whatever keys are crossed") {
  const std::string full_precision =
      "name = \"fsdp2\"\nmp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", "
      "output_dtype = \"float32\" }\n";
  const std::string checkpointing = GENERATE("", "true", "\"full\"", "\"selective\"", "\"mlp\"");
  const std::string strategy = GENERATE_COPY(
      full_precision + "tp_size = 2\n", full_precision + "tp_size = 2\nsequence_parallel = true\n",
      full_precision + "reshard_after_forward = true\nenable_fsdp2_prefetch = true\n",
      full_precision + "autocast_dtype = \"bfloat16\"\n",
      std::string("name = \"fsdp2\"\ndefer_fsdp_grad_sync = false\n"),
      std::string("name = \"megatron_fsdp\"\nzero_dp_strategy = 1\n"
                  "overlap_grad_reduce = false\noverlap_param_gather = false\n"),
      std::string("name = \"ddp\"\n"));
  const bool fsdp2 = strategy.find("fsdp2") == 8;
  if (!checkpointing.empty() && (checkpointing == "true") == fsdp2) return;
  const std::string model =
      GENERATE("table_large", "table_tied_large", "table_experts_large", "table_stacked_large");
  std::string keys = strategy;
  std::string tp;
  if (const size_t at = keys.find("tp_size = 2\n"); at != std::string::npos) {
    keys.erase(at, 12);
    tp = "tp_size = 2\n";
  }
  // This test leaves out tensor parallelism for models with experts.
  if (!tp.empty() && (model == "table_experts_large" || model == "table_stacked_large")) return;
  if (!checkpointing.empty()) keys += cat("activation_checkpointing = ", checkpointing, "\n");
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"", model, "\"\n[train]\nseq_len = 256\nmicro_batch_size = 4\n",
          "[data]\nkind = \"synthetic\"\n[mesh]\nworld_size = 4\n", tp,
          "[strategy]\nbackend = \"gloo\"\n", keys));
  INFO(model << ": " << tp << keys);
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  const layout::Layout layout = job::make_job(plan, *config, 4).layout;
  for (const int64_t rank : {0, 3}) {
    const auto planned = static_cast<double>(
        predict::estimate_memory(plan, *config, layout, rank).components.total());
    const auto dry = static_cast<double>(dry_step(plan, 4, rank).peak.total());
    CHECK(planned / dry == Approx(1.0).margin(0.02));
  }
}

TEST_CASE("am-plan counts the sum of a tied embedding's gradients") {
  // With few tokens, the peak is reached when autograd adds the head's gradient to the embedding's.
  const std::string strategy =
      GENERATE("name = \"ddp\"\n", "name = \"fsdp2\"\n", "name = \"megatron_fsdp\"\n");
  const config::Plan plan = test::parse(cat(
      "[model]\npath = \"", test::model_folder("smollm2-135m"), "\"\nweights = \"none\"\n[train]\n",
      "seq_len = 64\nmicro_batch_size = 1\n[data]\nkind = \"synthetic\"\n[mesh]\nworld_size = 2\n",
      "[strategy]\nbackend = \"gloo\"\n", strategy));
  INFO(strategy);
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  const layout::Layout layout = job::make_job(plan, *config, 2).layout;
  const auto planned =
      static_cast<double>(predict::estimate_memory(plan, *config, layout, 0).components.total());
  CHECK(planned / static_cast<double>(dry_step(plan, 2, 0).peak.total()) ==
        Approx(1.0).margin(0.002));
}

}  // namespace am
