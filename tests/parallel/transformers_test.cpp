// Logits, loss and gradients equal transformers' on the same weights (tests/data/hf, made by
// scripts/fixtures/make_fixtures.py), on one rank and under layouts with fsdp2, tp and sequence
// parallelism.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <mutex>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/stored/tensor_source.h"
#include "support/plans.h"

namespace am {
namespace {

using test::kFullPrecision;

constexpr double kFloat32Tolerance = 1e-5;

std::string plan_text(const std::string& family, const test::LayoutCase& layout) {
  return cat("[model]\npath = \"hf/", family, "\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n",
             layout.toml);
}

std::vector<test::LayoutCase> float32_layouts() {
  return {
      {"one rank", 1,
       cat("[mesh]\nworld_size = 1\n[strategy]\nname = \"fsdp2\"\n", kFullPrecision)},
      {"fsdp2 on 3", 3,
       cat("[mesh]\nworld_size = 3\n[strategy]\nname = \"fsdp2\"\n", kFullPrecision)},
      {"tp 2", 2,
       cat("[mesh]\nworld_size = 2\ntp_size = 2\n[strategy]\nname = \"fsdp2\"\n", kFullPrecision)},
      {"tp 2, sequence parallel", 2,
       cat("[mesh]\nworld_size = 2\ntp_size = 2\n[strategy]\nname = \"fsdp2\"\nsequence_parallel = "
           "true\n",
           kFullPrecision)},
      {"tp 2 x fsdp2 2", 4,
       cat("[mesh]\nworld_size = 4\ntp_size = 2\n[strategy]\nname = \"fsdp2\"\n", kFullPrecision)},
      {"tp 2 x fsdp2 2, sequence parallel", 4,
       cat("[mesh]\nworld_size = 4\ntp_size = 2\n[strategy]\nname = \"fsdp2\"\nsequence_parallel = "
           "true\n",
           kFullPrecision)},
      // For most families, there are more ranks than key heads.
      {"tp 4, sequence parallel", 4,
       cat("[mesh]\nworld_size = 4\ntp_size = 4\n[strategy]\nname = \"fsdp2\"\nsequence_parallel = "
           "true\n",
           kFullPrecision)},
  };
}

// Compares the number of tokens routed to each expert with the reference. `taken` contains the
// measured numbers, layer after layer.
void check_choice(const std::vector<int64_t>& taken, const model::DecoderSpec& spec,
                  const stored::TensorSource& reference) {
  std::vector<int64_t> wanted;
  for (int64_t layer = 0; layer < static_cast<int64_t>(spec.kind_of_layer.size()); ++layer) {
    if (!spec.layer(layer).router) continue;
    const at::Tensor ids = checkpoint::read_all(reference, cat("experts.", layer)).view(-1);
    for (int64_t e = 0; e < spec.layer(layer).router->experts; ++e) {
      wanted.push_back(ids.eq(e).sum().item<int64_t>());
    }
  }
  CHECK(taken == wanted);
}

// Compares one pass with transformers'. Every data-parallel rank computes the whole batch, so the
// loss is divided by dp.
void compare(const test::LayoutCase& layout, const std::string& family) {
  const config::Plan plan = test::parse(plan_text(family, layout));
  const auto reference =
      frameworks::open_tensor_source(test::data_path(cat("hf/", family, "/reference.safetensors")));
  std::mutex mutex;
  runtime::run_ranks(layout.ranks, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load(*rank.model, *frameworks::open_tensor_source(
                                      test::data_path(cat("hf/", family, "/model.safetensors"))));
    const at::Tensor labels = checkpoint::read_all(*reference, "labels");
    const at::Tensor logits = rank.model->forward(checkpoint::read_all(*reference, "input_ids"));
    const at::Tensor loss = rank.model->loss_sum(logits, labels);
    const int64_t count = labels.ne(parallel::kIgnoreIndex).sum().item<int64_t>();
    const auto dp = static_cast<double>(rank.layout.mesh.sizes().dp());
    (loss / static_cast<double>(count) / dp).backward();
    rank.model->data_parallel().finish_backward();

    const at::Tensor full_logits = rank.model->full_logits(logits);
    // Each rank of a tp group routes a different part of the tokens.
    const at::Tensor counts = at::tensor(rank.model->take_expert_counts(), at::kLong);
    rank.mesh.group("tp").all_reduce(counts);
    const std::vector<int64_t> taken(counts.const_data_ptr<int64_t>(),
                                     counts.const_data_ptr<int64_t>() + counts.numel());
    std::vector<std::pair<std::string, double>> differences;
    differences.emplace_back(
        "logits",
        test::relative_difference(full_logits, checkpoint::read_all(*reference, "logits")));
    differences.emplace_back("loss",
                             test::relative_difference((loss / count).view({1}),
                                                       checkpoint::read_all(*reference, "loss")));
    for (const layout::ParameterLayout& parameter : rank.layout.parameters) {
      if (!parameter.trainable) continue;
      // OPT has no rotary embedding, so the exact gradient of the key bias is zero: the bias adds
      // the same number to all scores of a query, which does not change the softmax.
      if (family == "opt" && ends_with(parameter.name, "k_proj.bias")) continue;
      differences.emplace_back(
          parameter.name,
          test::relative_difference(rank.model->full_gradient(parameter.name),
                                    checkpoint::read_all(*reference, "grad." + parameter.name)));
    }
    const std::lock_guard lock(mutex);
    check_choice(taken, rank.layout.inventory.spec, *reference);
    for (const auto& [name, difference] : differences) {
      INFO(family << ", " << layout.name << ", rank " << world.rank() << ": " << name);
      CHECK(difference < kFloat32Tolerance);
    }
  });
}

}  // namespace

TEST_CASE("logits, loss and gradients equal transformers'") {
  const std::string family = GENERATE(from_range(test::reference_models()));
  for (const auto& layout : float32_layouts()) {
    // Falcon stores query heads next to their key head, so tp cannot cut between the query heads of
    // one key head.
    if (family == "falcon" && layout.name == "tp 4, sequence parallel") continue;
    if (!test::runs(plan_text(family, layout), layout.ranks)) continue;
    DYNAMIC_SECTION(family << ", " << layout.name) { compare(layout, family); }
  }
}

}  // namespace am
