// Tests a decoder that is split into pipeline stages and joined by hand in one process: logits and
// gradients equal those of the whole decoder bit by bit.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/layout/layout.h"
#include "am/layout/stage_layout.h"
#include "am/model/config.h"
#include "am/nn/decoder.h"
#include "support/plans.h"

namespace am {
namespace {

using NamedTensors = std::map<std::string, at::Tensor>;

struct StagedModel {
  model::ModelConfig config;
  layout::Layout layout;
};

StagedModel staged_model(const std::string& family, int64_t pp) {
  Diagnostics found;
  const auto config = model::load_config(test::data_path(cat("hf/", family)), found);
  REQUIRE(config.has_value());
  const config::Plan plan =
      test::parse(cat("[model]\npath = \"hf/", family,
                      "\"\n[train]\nseq_len = 16\n[mesh]\nworld_size = 1\n[strategy]\nname = "
                      "\"fsdp2\"\n"));
  auto layout = layout::build_layout(plan, *config, {.pp = pp}, found);
  REQUIRE(layout.has_value());
  return {*config, *std::move(layout)};
}

NamedTensors values_of(const model::Inventory& inventory) {
  at::manual_seed(7);
  NamedTensors values;
  for (const auto& spec : inventory.parameters) values[spec.name] = at::randn(spec.shape) * 0.1;
  return values;
}

void give_values(nn::Decoder& decoder, const NamedTensors& values) {
  for (const auto& parameter : decoder.parameters()) {
    parameter->value = values.at(parameter->name).clone().set_requires_grad(true);
  }
}

// Adds the decoder's gradients to `sums`. For a parameter on two stages, the result is the sum of
// the gradients of both stages.
void add_gradients(const nn::Decoder& decoder, NamedTensors& sums) {
  for (const auto& parameter : decoder.parameters()) {
    const at::Tensor& gradient = parameter->value.grad();
    if (!gradient.defined()) continue;
    at::Tensor& sum = sums[parameter->name];
    sum = sum.defined() ? sum + gradient : gradient;
  }
}

struct JoinedPass {
  at::Tensor logits;
  NamedTensors gradients;
  std::vector<int64_t> expert_counts;
};

void check_same(const JoinedPass& got, const JoinedPass& wanted) {
  CHECK(at::equal(got.logits, wanted.logits));
  CHECK(got.expert_counts == wanted.expert_counts);
  REQUIRE(got.gradients.size() == wanted.gradients.size());
  for (const auto& [name, gradient] : wanted.gradients) {
    INFO(name);
    REQUIRE(got.gradients.contains(name));
    CHECK(at::equal(got.gradients.at(name), gradient));
  }
}

struct StageBatch {
  at::Tensor ids_BT, positions_BT;
};

JoinedPass run_whole(const StagedModel& model, const StageBatch& batch,
                     config::ActivationCheckpointing mode) {
  nn::Decoder decoder(model.config, model.layout.inventory);
  give_values(decoder, values_of(model.layout.inventory));
  decoder.set_checkpointing(mode);
  const at::Tensor logits = decoder(batch.ids_BT, batch.positions_BT);
  logits.square().sum().backward();
  JoinedPass outcome{logits.detach(), {}, decoder.take_expert_counts()};
  add_gradients(decoder, outcome.gradients);
  return outcome;
}

JoinedPass run_stages(const StagedModel& model, const StageBatch& batch,
                      config::ActivationCheckpointing mode) {
  const NamedTensors values = values_of(model.layout.inventory);
  std::vector<std::unique_ptr<nn::Decoder>> stages;
  std::vector<at::Tensor> inputs, outputs;
  JoinedPass outcome;
  for (int s = 0; s < static_cast<int>(model.layout.stage_owners.size()); ++s) {
    const layout::Layout layout = layout::stage_layout(model.layout, s);
    stages.push_back(std::make_unique<nn::Decoder>(model.config, layout.inventory,
                                                   layout::stage_range(model.layout, s)));
    nn::Decoder& decoder = *stages.back();
    REQUIRE(decoder.parameters().size() == layout.parameters.size());
    give_values(decoder, values);
    decoder.set_checkpointing(mode);
    inputs.emplace_back();
    if (s > 0) inputs.back() = outputs.back().detach().requires_grad_(true);
    outputs.push_back(decoder(batch.ids_BT, batch.positions_BT, inputs.back()));
    for (const int64_t count : decoder.take_expert_counts()) outcome.expert_counts.push_back(count);
  }
  outcome.logits = outputs.back().detach();
  outputs.back().square().sum().backward();
  for (size_t s = stages.size() - 1; s > 0; --s) outputs[s - 1].backward(inputs[s].grad());
  for (size_t s = stages.size(); s-- > 0;) add_gradients(*stages[s], outcome.gradients);
  return outcome;
}

}  // namespace

// The head is tied in gemma2, gemma3_text, gpt2 (with learned positions), phi-tied and falcon.
// gemma3_text has layers with and without a sliding window; qwen3_moe, gpt_oss and deepseek_v3
// (after dense layers) have experts; phi3 has fused matrices; phi and phi-tied have a biased head.
TEST_CASE("two stages give the whole decoder's logits and gradients to the bit") {
  const std::string family = GENERATE("llama", "gemma2", "gemma3_text", "gpt2", "phi3", "phi",
                                      "phi-tied", "qwen3_moe", "gpt_oss", "deepseek_v3", "falcon");
  const auto mode =
      GENERATE(config::ActivationCheckpointing::kOff, config::ActivationCheckpointing::kFull);
  INFO(family << ", checkpointing " << static_cast<int>(mode));
  const StagedModel one = staged_model(family, 1), two = staged_model(family, 2);
  const StageBatch batch{at::randint(one.config.vocab_size, {2, 16}, at::kLong), {}};
  check_same(run_stages(two, batch, mode), run_whole(one, batch, mode));
}

TEST_CASE("a stage takes packed documents from its own positions") {
  const StagedModel one = staged_model("mistral", 1), two = staged_model("mistral", 2);
  const StageBatch batch{at::randint(one.config.vocab_size, {1, 16}, at::kLong),
                         at::arange(16).remainder(6).view({1, 16})};
  const auto off = config::ActivationCheckpointing::kOff;
  const JoinedPass wanted = run_whole(one, batch, off);
  check_same(run_stages(two, batch, off), wanted);
  CHECK_FALSE(at::equal(wanted.logits, run_whole(one, {batch.ids_BT, {}}, off).logits));
}

TEST_CASE("a stage's layout has its own parameters and units, and says which layers they are") {
  const StagedModel model = staged_model("gpt2", 2);
  const auto layers = static_cast<int64_t>(model.config.num_hidden_layers);
  const layout::StageRange first = layout::stage_range(model.layout, 0);
  const layout::StageRange last = layout::stage_range(model.layout, 1);
  CHECK((first.first == 0 && first.embedding && !first.head));
  CHECK((last.first == first.end && last.end == layers && !last.embedding && last.head));

  const layout::Layout head = layout::stage_layout(model.layout, 1);
  const layout::Layout start = layout::stage_layout(model.layout, 0);
  // The tied embedding is on both stages.
  CHECK(start.parameters.size() + head.parameters.size() == model.layout.parameters.size() + 1);
  CHECK(head.inventory.find("transformer.wte.weight") != nullptr);
  CHECK(head.inventory.find("transformer.wpe.weight") == nullptr);
  for (const layout::Layout* each : {&start, &head}) {
    CHECK(each->tp.parameters.size() == each->parameters.size());
    for (size_t u = 0; u < each->units.size(); ++u) {
      CHECK_FALSE(each->units[u].parameters.empty());
      for (const int index : each->units[u].parameters) {
        CHECK(each->parameters[static_cast<size_t>(index)].unit == static_cast<int>(u));
      }
    }
  }
}

}  // namespace am
