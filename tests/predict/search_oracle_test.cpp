// Compares the search with brute force on 8 GPUs. Brute force checks every plan of the search
// space, and predicts its memory and step time. The search's first result must be as fast as the
// fastest plan that fits.
#include <catch2/catch.hpp>
#include <random>

#include "am/base/legal_values.h"
#include "am/predict/memory/stage_memory.h"
#include "am/predict/search/search.h"
#include "am/predict/time/prediction.h"
#include "am/rules/check.h"
#include "layout/plan_text.h"

namespace am::predict {
using namespace cluster;
using namespace layout;
using namespace rules;

namespace {

constexpr int64_t kGpus = 8;

// Returns a config with few layers, so that a case takes milliseconds, but with realistic widths.
model::ModelConfig model_of_kind(int kind) {
  constexpr std::array kTexts = {
      // Llama's shape.
      R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
          "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8,
          "max_position_embeddings": 8192, "tie_word_embeddings": false})",
      // A model with a tied head.
      R"({"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 1536,
          "intermediate_size": 8960, "num_hidden_layers": 2, "num_attention_heads": 12,
          "num_key_value_heads": 2, "max_position_embeddings": 32768, "tie_word_embeddings": true})",
      // Sizes with few divisors, and a number of layers that no pipeline size divides.
      R"({"model_type": "llama", "vocab_size": 32003, "hidden_size": 2100, "intermediate_size": 5601,
          "num_hidden_layers": 7, "num_attention_heads": 14, "num_key_value_heads": 14,
          "max_position_embeddings": 8192, "tie_word_embeddings": false})",
      // A model with experts.
      R"({"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 2048,
          "intermediate_size": 7168, "num_hidden_layers": 2, "num_attention_heads": 32,
          "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
          "max_position_embeddings": 8192, "tie_word_embeddings": false})",
  };
  Diagnostics found;
  const auto config =
      model::parse_config(kTexts.at(static_cast<size_t>(kind)), "config.json", found);
  REQUIRE(config.has_value());
  return *config;
}

struct Best {
  double seconds = std::numeric_limits<double>::infinity();
  std::string plan = "nothing fits";
  int64_t fitting = 0;
};

class BruteForce {
 public:
  explicit BruteForce(const SearchRequest& request) : request_(request) {
    plan_.model.path = request.model_path;
    plan_.file = "brute_force.toml";
    plan_.mesh.world_size = request.gpus;
    plan_.mesh.ranks_per_node = static_cast<int64_t>(request.gpu.gpus_per_node);
    plan_.train.seq_len = request.seq_len;
    plan_.train.global_batch_size = request.global_batch_size;
    plan_.cluster.implementation = std::string(request.implementation->name);
  }

  Best run() {
    for (const int64_t tp : divisors(kGpus)) {
      for (const int64_t pp : divisors(kGpus / tp)) {
        for (const int64_t cp : divisors(kGpus / tp / pp)) {
          plan_.mesh.tp_size = tp;
          plan_.mesh.pp_size = pp;
          plan_.mesh.cp_size = cp;
          for (const int64_t ep : divisors(request_.model.moe ? kGpus : 1)) {
            plan_.mesh.ep_size = ep;
            try_pipelines(kGpus / tp / pp / cp);
          }
        }
      }
    }
    return best_;
  }

 private:
  void try_pipelines(int64_t dp) {
    const std::pair<const char*, int64_t> schedules[] = {{"1f1b", 1},
                                                         {"interleaved_1f1b", 2},
                                                         {"interleaved_1f1b", 4},
                                                         {"interleaved_zero_bubble", 2},
                                                         {"zbv_zero_bubble", 2}};
    for (const int64_t micro_batch : {1, 2, 4, 8}) {
      if (request_.global_batch_size % (dp * micro_batch) != 0) continue;
      plan_.train.micro_batch_size = micro_batch;
      for (const auto& [schedule, virtual_stages] : schedules) {
        plan_.pipeline.schedule = schedule;
        plan_.pipeline.virtual_stages = virtual_stages;
        const bool piped = plan_.mesh.pp_size > 1;
        plan_.pipeline.microbatches = piped ? request_.global_batch_size / (dp * micro_batch) : 0;
        try_strategies();
        if (!piped) break;
      }
    }
  }

  // For the plans of this test, no rule depends on activation checkpointing or on whether gradient
  // reductions are deferred, so one check covers six plans.
  void try_strategies() {
    for (const bool sequence : {false, true}) {
      if (sequence && plan_.mesh.tp_size == 1) continue;
      config::FSDP2Config fsdp2;
      fsdp2.sequence_parallel = sequence;
      plan_.strategy = fsdp2;
      Diagnostics found;
      const CheckedPlan checked = check_model(plan_, request_.model, found);
      if (found.ok()) try_options(*checked.layout, fsdp2);
    }
  }

  void try_options(const Layout& layout, config::FSDP2Config& fsdp2) {
    using Checkpointing = config::ActivationCheckpointing;
    for (const bool defers : {false, true}) {
      for (const auto mode :
           {Checkpointing::kOff, Checkpointing::kSelective, Checkpointing::kFull}) {
        fsdp2.defer_fsdp_grad_sync = defers;
        fsdp2.activation_checkpointing = mode;
        plan_.strategy = fsdp2;
        try_plan(layout);
      }
    }
  }

  void try_plan(const Layout& layout) {
    const auto stages = memory_of_stages(plan_, request_.model, layout);
    const auto bytes = static_cast<double>(peak_of(stages).components.total());
    if (fit_into(*request_.implementation, bytes, request_.gpu) != Fit::kFits) return;
    ++best_.fitting;
    const Workload workload = workload_of(plan_, request_.model, layout);
    const StepTime time =
        estimate_step_time(workload, request_.gpu, default_calibration().constants);
    if (time.seconds >= best_.seconds) return;
    best_.seconds = time.seconds;
    best_.plan = config::to_toml(plan_);
  }

  const SearchRequest& request_;
  config::Plan plan_;
  Best best_;
};

TEST_CASE("the search's first layout is the fastest of all that check, memory and cost accept") {
  std::mt19937 random(8);
  const auto pick = [&](auto... values) {
    const std::array all = {values...};
    return all[random() % all.size()];
  };
  int fitting = 0;
  for (int i = 0; i < 50; ++i) {
    SearchRequest request{.model = model_of_kind(i % 4)};
    request.model_path = "nowhere";
    request.gpus = kGpus;
    request.gpu_name = pick("h100-sxm", "a100-sxm", "b200-sxm");
    Diagnostics found;
    request.gpu = *find_gpu(request.gpu_name, {}, {}, found);
    // With these values, some layouts fit into memory and some do not.
    request.gpu.memory_bytes *= pick(0.05, 0.1, 0.2, 1.0);
    request.seq_len = pick(int64_t{1024}, int64_t{4096}, int64_t{4097});
    request.global_batch_size = pick(int64_t{8}, int64_t{12}, int64_t{16});
    request.implementation =
        find_implementation(pick("automesh", "automesh", "torchtitan", "megatron"));
    request.top = pick(1, 10);
    INFO("case " << i << ": model " << i % 4 << ", " << request.gpu_name << " of "
                 << request.gpu.memory_bytes << " bytes, " << request.global_batch_size << " of "
                 << request.seq_len << ", " << request.implementation->name);
    const SearchResult result = search(request, default_calibration());
    const Best best = BruteForce(request).run();
    INFO("brute force: " << best.seconds << " s, " << best.plan);
    REQUIRE(result.layouts.empty() == (best.fitting == 0));
    if (best.fitting == 0) continue;
    ++fitting;
    INFO("search: " << config::to_toml(result.layouts.front().plan));
    CHECK(result.layouts.front().step_seconds == Approx(best.seconds).epsilon(1e-9));
  }
  CHECK(fitting > 30);
}

}  // namespace
}  // namespace am::predict
