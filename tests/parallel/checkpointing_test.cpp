// Logits, gradients and losses under activation checkpointing equal those without checkpointing,
// bit by bit.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <mutex>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "support/plans.h"
#include "support/train_curve.h"

namespace am {
namespace {

using test::kFullPrecision;

test::LayoutCase fsdp2(const std::string& name, int64_t ranks, const std::string& mesh = {},
                       const std::string& strategy = {}) {
  return {
      name, ranks,
      cat("[mesh]\nworld_size = ", ranks, "\n", mesh, "[strategy]\nname = \"fsdp2\"\n", strategy)};
}

std::vector<test::LayoutCase> layouts() {
  return {
      fsdp2("fsdp2 on 2", 2, "", kFullPrecision),
      fsdp2("fsdp2 on 3, never resharded", 3, "",
            kFullPrecision + "reshard_after_forward = false\n"),
      fsdp2("fsdp2 on 2, always resharded, prefetch", 2, "",
            kFullPrecision + "reshard_after_forward = true\nenable_fsdp2_prefetch = true\n"),
      fsdp2("tp 2", 2, "tp_size = 2\n", kFullPrecision),
      fsdp2("tp 2, sequence parallel", 2, "tp_size = 2\n",
            kFullPrecision + "sequence_parallel = true\n"),
      fsdp2("bfloat16 parameters on 2", 2),
      fsdp2("autocast on 2", 2, "", kFullPrecision + "autocast_dtype = \"bfloat16\"\n"),
  };
}

std::string with_mode(const test::LayoutCase& layout, const std::string& mode) {
  return cat(layout.toml, "activation_checkpointing = ", mode, "\n");
}

std::string plan_text(const std::string& family, const test::LayoutCase& layout,
                      const std::string& mode) {
  return cat("[model]\npath = \"hf/", family, "\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n",
             with_mode(layout, mode));
}

// Maps "RANK:UNIT" to the unit's flat gradient on the rank, and "RANK: logits" to the logits.
using Gradients = std::map<std::string, at::Tensor>;

Gradients first_gradients(const std::string& family, const test::LayoutCase& layout,
                          const std::string& mode) {
  const config::Plan plan = test::parse(plan_text(family, layout, mode));
  Gradients gradients;
  std::mutex mutex;
  runtime::run_ranks(layout.ranks, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load(*rank.model, *frameworks::open_tensor_source(
                                      test::data_path(cat("hf/", family, "/model.safetensors"))));
    const auto reference = frameworks::open_tensor_source(
        test::data_path(cat("hf/", family, "/reference.safetensors")));
    const at::Tensor logits = rank.model->forward(checkpoint::read_all(*reference, "input_ids"));
    rank.model->loss_sum(logits, checkpoint::read_all(*reference, "labels")).backward();
    rank.model->data_parallel().finish_backward();
    const std::lock_guard lock(mutex);
    for (const auto& group : rank.model->data_parallel().groups()) {
      gradients[cat(world.rank(), ":", group->name())] = group->flat_grad().clone();
    }
    gradients[cat(world.rank(), ": logits")] = logits.detach().clone();
  });
  return gradients;
}

test::Curve five_steps(const std::string& layout, int64_t ranks, int64_t micro_batch) {
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"loop/model\"\n[train]\nseq_len = 16\nglobal_batch_size = 12\n",
          "micro_batch_size = ", micro_batch,
          "\nmax_steps = 5\nmax_grad_norm = 1.0\n[optimizer]\nlr = 1e-2\n",
          "[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\nshuffle = false\n", layout));
  return test::train_curve(plan, ranks);
}

}  // namespace

TEST_CASE("checkpointing changes no bit of a gradient") {
  const std::string family = GENERATE(
      "llama", "mistral", "qwen2", "qwen3", "llama-bias", "gemma2", "olmo2", "phi", "phi3", "gpt2",
      "falcon", "falcon-7b", "falcon-rw", "mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2-dense",
      "deepseek_v3-dense", "deepseek_v2", "deepseek_v3", "gpt_oss", "granitemoe");
  for (const auto& layout : layouts()) {
    if (!test::runs(plan_text(family, layout, "false"), layout.ranks)) continue;
    const Gradients wanted = first_gradients(family, layout, "false");
    for (const std::string mode : {"true", "\"selective\"", "\"mlp\""}) {
      const Gradients got = first_gradients(family, layout, mode);
      REQUIRE(got.size() == wanted.size());
      for (const auto& [name, gradient] : got) {
        INFO(family << ", " << layout.name << ", " << mode << ", " << name);
        CHECK(at::equal(gradient, wanted.at(name)));
        CHECK(gradient.abs().sum().item<double>() > 0.0);
      }
    }
  }
}

TEST_CASE("checkpointing changes no bit of five steps, with accumulation and without") {
  std::vector<test::LayoutCase> all = layouts();
  all.push_back(
      fsdp2("deferred reduction", 2, "", kFullPrecision + "defer_fsdp_grad_sync = true\n"));
  all.push_back(fsdp2("reduction at each micro-batch", 2, "",
                      kFullPrecision + "defer_fsdp_grad_sync = false\n"));
  for (const auto& layout : all) {
    DYNAMIC_SECTION(layout.name) {
      const int64_t micro_batch = GENERATE(1, 2);
      const test::Curve wanted = five_steps(with_mode(layout, "false"), layout.ranks, micro_batch);
      REQUIRE(wanted.losses.size() == 5);
      for (const std::string mode : {"true", "\"selective\"", "\"mlp\""}) {
        INFO(mode << ", micro-batches of " << micro_batch);
        const test::Curve got = five_steps(with_mode(layout, mode), layout.ranks, micro_batch);
        CHECK(got.losses == wanted.losses);
        CHECK(got.norms == wanted.norms);
      }
    }
  }
}

TEST_CASE("ddp and megatron_fsdp checkpoint layers without changing a bit") {
  const std::string name = GENERATE("ddp", "megatron_fsdp");
  const std::string layout = cat("[mesh]\nworld_size = 2\n[strategy]\nname = \"", name, "\"\n");
  const test::Curve wanted = five_steps(layout, 2, 1);
  const test::Curve got = five_steps(layout + "activation_checkpointing = true\n", 2, 1);
  REQUIRE(wanted.losses.size() == 5);
  CHECK(got.losses == wanted.losses);
  CHECK(got.norms == wanted.norms);
}

}  // namespace am
