#include "am/predict/memory/memory.h"

#include <catch2/catch.hpp>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/layout/precision.h"
#include "am/model/gpu_operators.h"
#include "am/predict/memory/layer_activations.h"
#include "layout/plan_text.h"
#include "layout/random_plan.h"
#include "model/family_cases.h"

namespace {

using am::Diagnostics;
using am::predict::RankMemory;
using am::test::model_of;
using am::test::plan_of;

RankMemory memory(const std::string& text, const std::string& model = "llama-3.2-1b",
                  int64_t rank = 0) {
  const auto plan = plan_of(text, model);
  const auto config = model_of(model);
  return am::predict::estimate_memory(plan, config, am::test::layout_of(plan, config), rank);
}

const std::string kFloat32 =
    "[strategy]\nmp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", "
    "output_dtype = \"float32\" }\n";

TEST_CASE("states of one rank are four copies of the parameters") {
  const auto one = memory("[mesh]\nworld_size = 1\n" + kFloat32, "llama-3.1-8b").components;
  CHECK(one.parameters == 4 * 8030261248LL);
  CHECK(one.gradients == one.parameters);
  CHECK(one.optimizer == 2 * one.parameters);
  // total() adds all components that are in device memory.
  CHECK(one.total() == one.parameters + one.gradients + one.optimizer + one.activations +
                           one.logits + one.unsharded + one.communication + one.other);
}

TEST_CASE("states of a shard count the padding") {
  // All row counts of this model are divisible by 2. On 3 ranks, all parameters except the
  // embedding have padding.
  CHECK(memory("[mesh]\nworld_size = 2\n").components.parameters == 4 * 1235814400LL / 2);
  int64_t stored = 0;
  for (const auto& parameter : am::model::build_inventory(model_of("llama-3.2-1b")).parameters) {
    const int64_t rows = (parameter.shape[0] + 2) / 3;
    stored += rows * (am::numel(parameter.shape) / parameter.shape[0]);
  }
  for (const int64_t rank : {0, 2}) {
    CHECK(memory("[mesh]\nworld_size = 3\n", "llama-3.2-1b", rank).components.parameters ==
          4 * stored);
  }
}

TEST_CASE("frozen parameters have neither gradients nor optimizer states") {
  const std::string mesh = "[mesh]\nworld_size = 2\n" + kFloat32;
  const auto all = memory(mesh).components;
  const auto some = memory("freeze_params = [\"model.layers.1.*\"]\n" + mesh).components;
  const int64_t layer = 4 * (2 * 2048 * 2048 + 2 * 512 * 2048 + 3 * 8192 * 2048 + 2 * 2048) / 2;
  CHECK(some.parameters == all.parameters);
  CHECK(some.optimizer == all.optimizer - 2 * layer);
  // On one rank the peak is in the embedding's backward, when the gradients of all layers are live.
  const std::string one = "[mesh]\nworld_size = 1\n" + kFloat32;
  CHECK(memory("freeze_params = [\"model.layers.1.*\"]\n" + one).components.gradients ==
        memory(one).components.gradients - 2 * layer);
  // Frozen layers before the first trainable layer save nothing for backward.
  const auto top =
      memory("freeze_params = [\"model.embed_tokens.*\", \"model.layers.[0-7].*\"]\n" + mesh)
          .components;
  CHECK(top.activations < some.activations * 0.6);
}

TEST_CASE("families that are only planned have a predicted memory") {
  const auto plan = plan_of("[mesh]\nworld_size = 2\n[train]\nseq_len = 8\n" + kFloat32);
  for (const am::model::Family* family : am::model::families()) {
    if (family->runs) continue;
    for (const am::model::ModelConfig& config : am::test::family_cases(family->model_type)) {
      INFO(config.text);
      const am::layout::Layout layout = am::test::layout_of(plan, config);
      int64_t parameters = 0, padding = 0, untrained = 0;
      for (const am::model::ParameterSpec& parameter : layout.inventory.parameters) {
        const int64_t bytes = 4 * am::numel(parameter.shape);
        parameters += bytes;
        padding += bytes / parameter.shape[0];
        if (parameter.role == am::model::Role::kRouterCorrection) untrained += bytes;
      }
      const am::predict::MemoryComponents parts =
          am::predict::estimate_memory(plan, config, layout, 0).components;
      // Rank 0 stores half of the rows of each parameter, rounded up.
      CHECK(parts.parameters >= parameters / 2);
      CHECK(parts.parameters <= (parameters + padding) / 2);
      CHECK(parts.optimizer <= 2 * parts.parameters);
      CHECK(parts.optimizer >= 2 * parts.parameters - 2 * (untrained + padding));
      CHECK(parts.activations > 0);
    }
  }
}

TEST_CASE("a model without rotation has no tables of it") {
  const auto plan = plan_of("[mesh]\nworld_size = 1\n");
  const std::string sizes =
      R"({"model_type": "mamba", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2})";
  const am::model::ModelConfig mamba = am::test::config_of(sizes);
  const RankMemory memory =
      am::predict::estimate_memory(plan, mamba, am::test::layout_of(plan, mamba), 0);
  CHECK(memory.components.other % am::model::kProductWorkspace == 0);
}

TEST_CASE("storage in bfloat16 halves the states") {
  const auto plan = plan_of("dtype = \"bfloat16\"\n[mesh]\nworld_size = 1\n", "llama-3.2-1b");
  CHECK(am::layout::resolve_precision(plan).storage == "bfloat16");
  CHECK(memory("dtype = \"bfloat16\"\n[mesh]\nworld_size = 1\n").components.optimizer ==
        4 * 1235814400LL);
}

TEST_CASE("precision is AutoModel's default unless the plan says otherwise") {
  const auto mixed = am::layout::resolve_precision(plan_of("[mesh]\nworld_size = 1\n"));
  CHECK(mixed.storage == "float32");
  CHECK(mixed.compute == "bfloat16");
  CHECK(mixed.reduce == "float32");
  const auto ddp = am::layout::resolve_precision(plan_of("[strategy]\nname = \"ddp\"\n"));
  CHECK(ddp.compute == "float32");
  CHECK(ddp.products == "float32");
  const auto autocast = am::layout::resolve_precision(
      plan_of("[strategy]\nname = \"ddp\"\nautocast_dtype = \"bfloat16\"\n"));
  CHECK(autocast.compute == "float32");
  CHECK(autocast.products == "bfloat16");
  CHECK(autocast.reduce == "float32");
}

TEST_CASE("activations grow with tokens and shrink with tp and sequence parallelism") {
  const auto at = [](const std::string& text) {
    return memory("[mesh]\nworld_size = 8\n" + text, "llama-3.1-8b").components;
  };
  const auto base = at("[train]\nseq_len = 4096\n");
  const auto longer = at("[train]\nseq_len = 8192\n");
  CHECK(longer.activations > 1.9 * static_cast<double>(base.activations));
  const auto tp = at("tp_size = 8\n[train]\nseq_len = 4096\n");
  CHECK(tp.activations < base.activations);
  // With sequences of 16384 tokens, the peak is in the head's backward, which starts with the
  // gradient of the logits. The loss of float16 logits also holds a float32 copy of the logits.
  const auto long_base = at("[train]\nseq_len = 16384\n");
  const auto long_tp = at("tp_size = 8\n[train]\nseq_len = 16384\n");
  const int64_t numel = 16384LL * 128256;
  CHECK(long_base.logits == numel * 2);
  CHECK(numel / 8 < am::model::kLossElements);
  CHECK(long_tp.logits == numel / 8 * 2);
  const auto long_tp_in_half =
      at("tp_size = 8\n[strategy]\nmp_policy = { param_dtype = \"float16\" }\n"
         "[train]\nseq_len = 16384\n");
  CHECK(long_tp_in_half.logits == numel / 8 * (2 + 4));
  const auto long_tp_on_host =
      at("tp_size = 8\n[strategy]\nbackend = \"gloo\"\n[train]\nseq_len = 16384\n");
  CHECK(long_tp_on_host.logits == numel / 8 * 2);
  const auto sp =
      at("tp_size = 8\n[strategy]\nsequence_parallel = true\n[train]\nseq_len = 4096\n");
  CHECK(sp.activations < tp.activations);
  const auto full = at("[strategy]\nactivation_checkpointing = true\n[train]\nseq_len = 4096\n");
  const auto selective =
      at("[strategy]\nactivation_checkpointing = \"selective\"\n[train]\nseq_len = 4096\n");
  CHECK(full.activations < selective.activations);
  CHECK(selective.activations < base.activations);
}

TEST_CASE("a layer's saved tensors, by hand") {
  // llama-3.1-8b, bfloat16, one sequence of 1024. Bytes per token: norms 2 * (2 * 4096 + 4), their
  // outputs 2 * 2 * 4096, queries, keys and values (4096 + 2 * 1024) * 2, attention 4096 * 2 + 32 *
  // 4, feed-forward 2 * 14336 * 2.
  const auto plan = plan_of("[mesh]\nworld_size = 1\n[train]\nseq_len = 1024\n");
  const auto config = model_of("llama-3.1-8b");
  Diagnostics found;
  const auto layout = am::layout::build_layout(plan, config, {}, found);
  REQUIRE(layout.has_value());
  const auto context = am::predict::activation_context(plan, *layout);
  const double per_token = 8.0 * 4096 + 8 + 6144 * 2 + 4096 * 2 + 32 * 4 + 2 * 14336 * 2;
  CHECK(am::predict::layer_activations(context, *layout, 0, layout->units[1]) ==
        Approx(1024 * per_token));
}

TEST_CASE("on GPUs attention's backward takes what one block takes for soft-caps alone") {
  const auto by_blocks = [](const std::string& name, const std::string& strategy) {
    const auto plan =
        plan_of("[mesh]\nworld_size = 1\n[train]\nseq_len = 8192\n[strategy]\n" + strategy);
    const auto config = model_of(name);
    Diagnostics found;
    const auto layout = am::layout::build_layout(plan, config, {}, found);
    REQUIRE(layout.has_value());
    const auto context = am::predict::activation_context(plan, *layout);
    return am::predict::LayerActivations(context, *layout, 0, layout->units[1])
               .backward()
               .attention != 0.0;
  };
  // These models have, in this order, an attention window, attention sinks, and values narrower
  // than keys.
  for (const std::string name : {"gemma-3-1b-pt", "gpt-oss-20b", "deepseek-v2-lite"}) {
    INFO(name);
    CHECK(by_blocks(name, "backend = \"gloo\"\n"));
    CHECK_FALSE(by_blocks(name, ""));
    CHECK(by_blocks(name, "mp_policy = { param_dtype = \"float32\" }\n"));
  }
  CHECK(by_blocks("gemma-2-2b", ""));
  CHECK_FALSE(by_blocks("llama-3.1-8b", "backend = \"gloo\"\n"));
}

TEST_CASE("what checkpointing keeps of a layer, by hand") {
  const auto kept = [](const std::string& strategy, const std::string& name) {
    const auto plan =
        plan_of("[mesh]\nworld_size = 1\n[train]\nseq_len = 1024\n[strategy]\n" + strategy);
    const auto config = model_of(name);
    Diagnostics found;
    const auto layout = am::layout::build_layout(plan, config, {}, found);
    REQUIRE(layout.has_value());
    const auto context = am::predict::activation_context(plan, *layout);
    return am::predict::layer_activations(context, *layout, 0, layout->units[1]) / 1024;
  };
  // Kept tensors: the layer's input and the sum after attention; queries, keys and values;
  // attention's output; the output of gate.
  const std::string selective = "activation_checkpointing = \"selective\"\n";
  const double llama = 2 * 4096 * 2 + 6144 * 2 + 4096 * 2 + 32 * 4 + 14336 * 2;
  CHECK(kept(selective, "llama-3.1-8b") == Approx(llama));
  CHECK(kept("activation_checkpointing = true\n", "llama-3.1-8b") == Approx(4096 * 2));
  // Under autocast, hidden states are float32, like the parameters. The bfloat16 copy of o_proj's
  // weight is saved too.
  const std::string narrow =
      "autocast_dtype = \"bfloat16\"\nmp_policy = { param_dtype = \"float32\", reduce_dtype = "
      "\"float32\", output_dtype = \"float32\" }\n";
  const double cast = llama + 2 * 4096 * 2 + 4096.0 * 4096 * 2 / 1024;
  CHECK(kept(selective + narrow, "llama-3.1-8b") == Approx(cast));
}

TEST_CASE("gradient accumulation with deferred reduction keeps whole gradients") {
  const std::string text = "[mesh]\nworld_size = 8\n[train]\nseq_len = 128\nglobal_batch_size = ";
  const auto single = memory(text + "8\n", "llama-3.1-8b").components;
  const auto deferred = memory(text + "16\n", "llama-3.1-8b").components;
  const auto held = [](const auto& each) { return each.unsharded + each.communication; };
  CHECK(held(deferred) - held(single) > 3 * 8030261248LL);
  const auto eager =
      memory(text + "16\n[strategy]\ndefer_fsdp_grad_sync = false\n", "llama-3.1-8b").components;
  CHECK(eager.total() > single.total());
  CHECK(eager.gradients == eager.parameters);  // gradients of the earlier micro-batches
}

TEST_CASE("gradients are live from their reduction to the next step") {
  const std::string mesh = "[mesh]\nworld_size = 8\n[train]\nseq_len = ";
  const RankMemory loss = memory(mesh + "32768\n", "llama-3.1-8b");
  CHECK(loss.moment == "backward of lm_head");
  CHECK(loss.components.gradients == 0);
  const RankMemory update =
      memory("[mesh]\nworld_size = 1\n[train]\nseq_len = 128\n" + kFloat32, "llama-3.1-8b");
  CHECK(update.components.gradients == update.components.parameters);
  // If gradients are reduced after each micro-batch, the reduced gradients of the first micro-batch
  // are live when the second micro-batch begins.
  const RankMemory second = memory(mesh +
                                       "32768\nglobal_batch_size = 16\n[strategy]\n"
                                       "defer_fsdp_grad_sync = false\n",
                                   "llama-3.1-8b");
  CHECK(second.moment == loss.moment);
  CHECK(second.components.gradients == second.components.parameters);
}

TEST_CASE("buckets of earlier micro-batches are live when the last one begins") {
  const std::string text =
      "[mesh]\nworld_size = 2\n[train]\nseq_len = 32768\nglobal_batch_size = 4\n"
      "[strategy]\nname = \"ddp\"\n";
  const RankMemory loss = memory(text);
  CHECK(loss.moment == "backward of the tied head");
  CHECK(loss.components.gradients == loss.components.parameters);
}

TEST_CASE("keeping parameters after forward costs memory") {
  const std::string text = "[mesh]\nworld_size = 8\n[train]\nseq_len = 128\n[strategy]\n";
  const auto freed = memory(text, "llama-3.1-8b").components;
  const auto kept = memory(text + "reshard_after_forward = false\n", "llama-3.1-8b").components;
  CHECK(kept.unsharded > 5 * freed.unsharded);
}

TEST_CASE("a stage keeps the shards of reshard_after_forward = N once, not once a micro-batch") {
  const auto unsharded = [](int64_t micro_batches) {
    const std::string text = am::cat(
        "[mesh]\nworld_size = 8\npp_size = 2\n[train]\nseq_len = 128\n[pipeline]\n"
        "schedule = \"gpipe\"\nmicrobatches = ",
        micro_batches, "\n[strategy]\nreshard_after_forward = 2\n");
    return memory(text, "llama-3.1-8b").components.unsharded;
  };
  CHECK(unsharded(16) == unsharded(4));
}

TEST_CASE("pipeline stages hold their own parameters") {
  const std::string text =
      "[mesh]\nworld_size = 2\npp_size = 2\n[train]\nseq_len = 128\nglobal_batch_size = 2\n";
  const auto first = memory(text, "llama-3.1-8b", 0);
  const auto last = memory(text, "llama-3.1-8b", 1);
  CHECK(first.stage == 0);
  CHECK(last.stage == 1);
  CHECK(first.components.parameters + last.components.parameters == 4 * 8030261248LL);
  CHECK(first.components.logits == 0);
}

TEST_CASE("pipeline schedules decide how many micro-batches' activations live at once") {
  // Returns the bytes of activations on one of two ranks. Each rank has 16 layers of llama-3.1-8b.
  // The embedding saves only 8 bytes per token.
  const auto activations = [](const std::string& pipeline, int64_t rank = 0) {
    return static_cast<double>(
        memory("[mesh]\nworld_size = 2\npp_size = 2\n[train]\nseq_len = 65536\n"
               "global_batch_size = 8\n[pipeline]\nmicrobatches = 8\n" +
                   pipeline,
               "llama-3.1-8b", rank)
            .components.activations);
  };
  const double gpipe = activations("schedule = \"gpipe\"\n");
  const double one = activations("schedule = \"1f1b\"\n");
  // The tolerance is for hidden states in transit, which both schedules have.
  CHECK(gpipe / one == Approx(8.0 / 2.0).epsilon(0.03));
  // Each of a rank's v = 2 stages has half of the rank's layers. Summed over both stages, 2 * (pp -
  // rank - 1) + (v - 1) * pp + 1 = 5 micro-batches are in flight on rank 0 of pp = 2.
  const double interleaved = activations("schedule = \"interleaved_1f1b\"\nvirtual_stages = 2\n");
  CHECK(interleaved / one == Approx(5.0 / 4.0).epsilon(0.02));
  const double breadth = activations("schedule = \"looped_bfs\"\nvirtual_stages = 2\n");
  CHECK(breadth == Approx(gpipe).epsilon(0.02));
  // In a V schedule the last rank holds as much as the first.
  const std::string v = "schedule = \"zbv_zero_bubble\"\nvirtual_stages = 2\n";
  CHECK(activations(v, 1) == Approx(activations(v, 0)).epsilon(0.1));
}

TEST_CASE("absurd sizes saturate") {
  const auto huge =
      memory("[mesh]\nworld_size = 1\n[train]\nseq_len = 134217728\nmicro_batch_size = 1048576\n",
             "llama-3.1-8b");
  CHECK(huge.components.activations > 0);
  CHECK(huge.components.total() > 0);
}

TEST_CASE("the first rank of a pipeline position is its worst") {
  am::test::RandomPlans plans(18);
  for (int i = 0; i < 40; ++i) {
    const am::test::ValidPlan valid = plans.next();
    const auto worst = am::predict::worst_of_stages(valid.plan, valid.model, valid.layout);
    const am::mesh::MeshSizes& sizes = valid.layout.mesh.sizes();
    INFO(am::config::to_toml(valid.plan));
    for (int64_t pp = 0; pp < sizes.pp; ++pp) {
      for (const int64_t shard : {int64_t{0}, sizes.dp_shard / 2, sizes.dp_shard - 1}) {
        for (const int64_t tp : {int64_t{0}, sizes.tp / 2, sizes.tp - 1}) {
          const int64_t rank = valid.layout.mesh.rank({pp, 0, shard, sizes.cp - 1, tp});
          const auto one =
              am::predict::estimate_memory(valid.plan, valid.model, valid.layout, rank);
          CHECK(one.components.total() <= worst[static_cast<size_t>(pp)].components.total());
        }
      }
    }
  }
}

TEST_CASE("legal values") {
  CHECK(am::divisors(12) == std::vector<int64_t>{1, 2, 3, 4, 6, 12});
  CHECK(am::divisors(1) == std::vector<int64_t>{1});
  CHECK(am::divisors(16) == std::vector<int64_t>{1, 2, 4, 8, 16});
  CHECK(am::nearest_values({1, 2, 4, 8, 16}, 5, 3) == std::vector<int64_t>{2, 4, 8});
  CHECK(am::nearest_multiples(8, 20) == std::vector<int64_t>{16, 24});
  CHECK(am::nearest_multiples(8, 16) == std::vector<int64_t>{16});
  for (const int64_t low : {3, 0, -3, -8, -20}) {
    CHECK(am::nearest_multiples(8, low) == std::vector<int64_t>{8});
  }
  CHECK(am::assignment("tp_size", {1, 2, 4}) == "tp_size = 1, 2 or 4");
  CHECK(am::assignment("tp_size", {}).empty());
}

}  // namespace
