// Adapters have PEFT's logits, loss and gradients on the same weights (tests/data/lora, made by
// scripts/fixtures/make_adapters.py), on one rank and under data- and tensor-parallel layouts. Also
// tests dropout, activation checkpointing and the initial values of a new adapter.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <mutex>

#include "am/base/text.h"
#include "am/checkpoint/peft.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "support/plans.h"

namespace am {
namespace {

using test::kFullPrecision;

constexpr double kLoraTolerance = 1e-5;

struct AdapterCase {
  std::string name;  // folder in tests/data/lora
  std::string family;
  int64_t rank;
  std::string targets;
  std::string more = {};  // further keys of [lora]
};

const std::vector<AdapterCase>& adapter_cases() {
  static const std::vector<AdapterCase> all = {
      {"llama", "llama", 4, R"(["all-linear"])"},
      {"qwen2", "qwen2", 3, R"(["q_proj", "v_proj", "mlp.down_proj"])"},
      {"phi3", "phi3", 4, R"(["all-linear"])"},
      {"gpt2", "gpt2", 4, R"(["c_attn", "c_fc", "c_proj"])"},
      {"deepseek_v2-dense", "deepseek_v2-dense", 4, R"(["*.self_attn.*"])"},
      {"gemma2", "gemma2", 4, R"(["o_proj", "down_proj"])"},
      {"qwen2_moe", "qwen2_moe", 4,
       R"(["k_proj", "*.shared_expert.*_proj", "shared_expert_gate"])"},
      {"llama-head", "llama", 4, R"(["lm_head", "v_proj"])"},
      {"llama-dora", "llama", 4, R"(["all-linear"])", "use_dora = true\n"},
      {"phi3-dora", "phi3", 4, R"(["all-linear"])", "use_dora = true\n"},
      {"gpt2-dora", "gpt2", 4, R"(["c_attn", "c_fc", "c_proj"])", "use_dora = true\n"},
      {"llama-saved", "llama", 4, R"(["q_proj", "v_proj"])",
       "modules_to_save = [\"embed_tokens\", \"lm_head\"]\n"},
  };
  return all;
}

std::string adapter_plan(const AdapterCase& one, const std::string& layout, double dropout = 0.0) {
  return cat("[model]\npath = \"hf/", one.family,
             "\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n[lora]\nrank = ", one.rank,
             "\nalpha = 6\ndropout = ", dropout, "\ntarget_modules = ", one.targets, "\n", one.more,
             layout);
}

std::vector<test::LayoutCase> adapter_layouts() {
  using test::float32_fsdp2;
  return {
      {"one rank", 1, float32_fsdp2(1)},
      {"fsdp2 on 3", 3, float32_fsdp2(3)},
      {"hsdp", 4, float32_fsdp2(4, "dp_replicate_size = 2\n")},
      {"ddp on 2", 2, "[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\n"},
      {"megatron_fsdp on 2", 2, "[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\n"},
      {"tp 2", 2, float32_fsdp2(2, "tp_size = 2\n")},
      {"tp 2, sequence parallel", 2,
       float32_fsdp2(2, "tp_size = 2\n", "sequence_parallel = true\n")},
      {"tp 2 x fsdp2 2", 4, float32_fsdp2(4, "tp_size = 2\n")},
      {"tp 2 x fsdp2 2, sequence parallel", 4,
       float32_fsdp2(4, "tp_size = 2\n", "sequence_parallel = true\n")},
  };
}

using NamedGradients = std::map<std::string, at::Tensor>;

struct ComputedAdapters {
  NamedGradients gradients;  // full gradients of trainable parameters
  at::Tensor logits, loss;
  int64_t frozen_gradients = 0;  // number of gradient elements of frozen parameters
};

// Runs forward and backward under the layout. Every data-parallel rank computes the whole batch, so
// the loss is divided by dp.
ComputedAdapters compute_adapters(const AdapterCase& one, const test::LayoutCase& layout,
                                  double dropout = 0.0, int64_t step = 0) {
  const config::Plan plan = test::parse(adapter_plan(one, layout.toml, dropout));
  const auto reference = frameworks::open_tensor_source(
      test::data_path(cat("lora/", one.name, "/reference.safetensors")));
  ComputedAdapters computed;
  std::mutex mutex;
  runtime::run_ranks(layout.ranks, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load(*rank.model, *frameworks::open_tensor_source(test::data_path(
                                      cat("hf/", one.family, "/model.safetensors"))));
    checkpoint::load_adapter(*rank.model, test::data_path(cat("lora/", one.name)));
    const at::Tensor labels = checkpoint::read_all(*reference, "labels");
    rank.model->begin_dropout(/*seed=*/7, step, /*first_sequence=*/0);
    const at::Tensor logits = rank.model->forward(checkpoint::read_all(*reference, "input_ids"));
    const at::Tensor loss = rank.model->loss_sum(logits, labels);
    const int64_t count = labels.ne(parallel::kIgnoreIndex).sum().item<int64_t>();
    const auto dp = static_cast<double>(rank.layout.mesh.sizes().dp());
    (loss / static_cast<double>(count) / dp).backward();
    rank.model->data_parallel().finish_backward();
    NamedGradients gradients;
    int64_t owned_numel = 0, gradient_numel = 0;
    for (const auto& group : rank.model->data_parallel().groups()) {
      gradient_numel += group->flat_grad().defined() ? group->flat_grad().numel() : 0;
    }
    rank.model->for_each_owned(
        [&](parallel::ParamGroup& group, size_t i, const parallel::LocalParameter& owned) {
          if (!owned.trainable) return;
          const at::Tensor local = group.view_in(group.flat_grad(), i);
          owned_numel += local.numel();
          if (owned.number > 0) return;
          gradients[owned.name] = rank.model->full_gradient(owned.name).clone();
        });
    const at::Tensor full_logits = rank.model->full_logits(logits.detach());
    const std::lock_guard lock(mutex);
    computed.frozen_gradients += gradient_numel - owned_numel;
    if (world.rank() > 0) return;
    computed.gradients = std::move(gradients);
    computed.logits = full_logits.clone();
    computed.loss = (loss.detach() / count).view({1});
  });
  return computed;
}

}  // namespace

TEST_CASE("adapters give PEFT's logits, loss and gradients") {
  for (const AdapterCase& one : adapter_cases()) {
    const auto reference = frameworks::open_tensor_source(
        test::data_path(cat("lora/", one.name, "/reference.safetensors")));
    for (const test::LayoutCase& layout : adapter_layouts()) {
      if (!test::runs(adapter_plan(one, layout.toml), layout.ranks)) continue;
      DYNAMIC_SECTION(one.name << ", " << layout.name) {
        const ComputedAdapters computed = compute_adapters(one, layout);
        CHECK(test::relative_difference(
                  computed.logits, checkpoint::read_all(*reference, "logits")) < kLoraTolerance);
        CHECK(test::relative_difference(computed.loss, checkpoint::read_all(*reference, "loss")) <
              kLoraTolerance);
        size_t wanted = 0;
        for (const auto& stored : reference->tensors()) {
          if (!starts_with(stored.name, "grad.")) continue;
          ++wanted;
          INFO(stored.name);
          const auto found = computed.gradients.find(stored.name.substr(5));
          REQUIRE(found != computed.gradients.end());
          CHECK(test::relative_difference(
                    found->second, checkpoint::read_all(*reference, stored.name)) < kLoraTolerance);
        }
        CHECK(computed.gradients.size() == wanted);
      }
    }
  }
}

TEST_CASE("what adapters drop is the same under every layout") {
  using test::float32_fsdp2;
  std::vector<test::LayoutCase> layouts = adapter_layouts();
  layouts.push_back({"checkpointed", 1, float32_fsdp2(1, "", "activation_checkpointing = true\n")});
  layouts.push_back({"tp 2, sequence parallel, checkpointed", 2,
                     float32_fsdp2(2, "tp_size = 2\n",
                                   "sequence_parallel = true\nactivation_checkpointing = true\n")});
  for (const AdapterCase& one : adapter_cases()) {
    if (starts_with(one.more, "use_dora")) continue;  // DoRA has no dropout
    const ComputedAdapters wanted = compute_adapters(one, layouts.front(), 0.25);
    const ComputedAdapters whole = compute_adapters(one, layouts.front());
    CHECK(test::relative_difference(wanted.logits, whole.logits) > 1e-4);
    const ComputedAdapters later = compute_adapters(one, layouts.front(), 0.25, 1);
    CHECK(test::relative_difference(wanted.logits, later.logits) > 1e-4);
    // Catch2 sections are not used here: each section would run this test from its beginning and
    // compute the values above again.
    for (const test::LayoutCase& layout : layouts) {
      if (!test::runs(adapter_plan(one, layout.toml), layout.ranks)) continue;
      INFO(one.name << ", " << layout.name);
      const ComputedAdapters got = compute_adapters(one, layout, 0.25);
      CHECK(test::relative_difference(got.logits, wanted.logits) < kLoraTolerance);
      REQUIRE(got.gradients.size() == wanted.gradients.size());
      for (const auto& [name, gradient] : wanted.gradients) {
        INFO(name);
        CHECK(test::relative_difference(got.gradients.at(name), gradient) < kLoraTolerance);
      }
    }
  }
}

TEST_CASE("checkpointing changes no bit of an adapter's gradient") {
  for (const AdapterCase& one : adapter_cases()) {
    for (const auto& [name, ranks, mesh, strategy] :
         {std::tuple{"fsdp2 on 2", 2, "", ""}, std::tuple{"tp 2", 2, "tp_size = 2\n", ""},
          std::tuple{"autocast", 1, "", "autocast_dtype = \"bfloat16\"\n"}}) {
      const auto with = [&](const char* mode) {
        return test::LayoutCase{
            name, ranks,
            test::float32_fsdp2(ranks, mesh,
                                cat(strategy, "activation_checkpointing = ", mode, "\n"))};
      };
      if (!test::runs(adapter_plan(one, with("false").toml), ranks)) continue;
      const ComputedAdapters wanted = compute_adapters(one, with("false"));
      for (const char* mode : {"true", "\"selective\"", "\"mlp\""}) {
        const ComputedAdapters got = compute_adapters(one, with(mode));
        INFO(one.name << ", " << name << ", " << mode);
        CHECK(at::equal(got.logits, wanted.logits));
        for (const auto& [parameter, gradient] : got.gradients) {
          INFO(parameter);
          CHECK(at::equal(gradient, wanted.gradients.at(parameter)));
          CHECK(gradient.abs().sum().item<double>() > 0.0);
        }
      }
    }
  }
}

TEST_CASE("in bfloat16 an adapter's gradients stay near") {
  const AdapterCase& one = adapter_cases().front();
  const ComputedAdapters wanted = compute_adapters(one, adapter_layouts().front());
  for (const char* strategy :
       {"autocast_dtype = \"bfloat16\"\n",
        "mp_policy = { param_dtype = \"bfloat16\", reduce_dtype = \"float32\" }\n"}) {
    const std::string plain = strategy[0] == 'a' ? kFullPrecision : "";
    const ComputedAdapters got = compute_adapters(
        one, {"bfloat16", 2,
              cat("[mesh]\nworld_size = 2\n[strategy]\nname = \"fsdp2\"\n", plain, strategy)});
    for (const auto& [parameter, gradient] : got.gradients) {
      INFO(strategy << parameter);
      const double difference = test::relative_difference(gradient, wanted.gradients.at(parameter));
      CHECK(difference < 0.1);
      CHECK(difference > 0.0);
    }
  }
}

// Initial values depend on the parameter's name and on global indices, but not on the rank's shard.
TEST_CASE("a new adapter adds nothing, and begins alike on every layout") {
  std::map<std::string, at::Tensor> first;
  for (const test::LayoutCase& layout : adapter_layouts()) {
    const config::Plan plan = test::parse(adapter_plan(adapter_cases().front(), layout.toml));
    std::mutex mutex;
    runtime::run_ranks(layout.ranks, [&](const runtime::World& world) {
      test::RankModel rank(plan, world);
      checkpoint::initialize(*rank.model, 5);
      for (const model::ParameterSpec& parameter : rank.layout.inventory.parameters) {
        if (parameter.adapter == model::AdapterPart::kNone) continue;
        const at::Tensor whole = rank.model->full_parameter(parameter.name);
        if (world.rank() > 0) continue;
        const std::lock_guard lock(mutex);
        INFO(layout.name << ", " << parameter.name);
        if (parameter.adapter == model::AdapterPart::kB) {
          CHECK(whole.eq(0).all().item<bool>());
          continue;
        }
        const double bound = 1.0 / std::sqrt(static_cast<double>(parameter.shape[1]));
        const double most = whole.abs().max().item<double>();
        CHECK(most <= bound);
        CHECK(most > 0.9 * bound);
        const auto [known, added] = first.emplace(parameter.name, whole.clone());
        CHECK(at::equal(known->second, whole));
      }
    });
  }
  CHECK(first.size() == 14);
}

TEST_CASE("what is frozen has no gradient") {
  for (const test::LayoutCase& layout : adapter_layouts()) {
    if (layout.ranks > 1) continue;
    CHECK(compute_adapters(adapter_cases().front(), layout).frozen_gradients == 0);
  }
}

}  // namespace am
