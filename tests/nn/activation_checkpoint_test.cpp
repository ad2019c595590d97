// Tests a decoder with activation checkpointing in one process: gradients are bitwise equal to
// gradients without checkpointing, and fewer bytes are kept until backward.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/model/config.h"
#include "am/model/inventory.h"
#include "am/nn/checkpoint.h"
#include "am/nn/decoder.h"
#include "support/folders.h"
#include "support/live_bytes.h"

namespace am {
namespace {

struct Outcome {
  at::Tensor logits;
  std::vector<std::string> names;
  std::vector<at::Tensor> gradients;
  int64_t live = 0;  // bytes kept from forward to backward
};

Outcome pass(const std::string& family, config::ActivationCheckpointing mode,
             std::optional<at::ScalarType> autocast) {
  Diagnostics found;
  const auto config = model::load_config(cat(test::kDataFolder, "/hf/", family), found);
  REQUIRE(config.has_value());
  const auto inventory = model::build_inventory(*config);
  nn::Decoder decoder(*config, inventory);
  at::manual_seed(7);
  for (size_t i = 0; i < decoder.parameters().size(); ++i) {
    at::Tensor value = at::randn(inventory.parameters[i].shape) * 0.1;
    decoder.parameters()[i]->value = value.set_requires_grad(true);
  }
  decoder.set_checkpointing(mode);
  decoder.set_autocast(autocast);
  const at::Tensor ids = at::randint(config->vocab_size, {4, 32}, at::kLong);
  Outcome outcome;
  const test::LiveBytes live;
  const at::Tensor logits = decoder(ids);
  outcome.live = live.count();
  logits.to(at::kFloat).square().sum().backward();
  outcome.logits = logits.detach();
  for (const auto& parameter : decoder.parameters()) {
    outcome.names.push_back(parameter->name);
    outcome.gradients.push_back(parameter->value.grad());
  }
  return outcome;
}

}  // namespace

TEST_CASE("a checkpointed decoder gives the same gradients from fewer bytes") {
  const std::string family = GENERATE("llama", "mistral", "qwen2", "qwen3", "llama-bias", "gemma",
                                      "gemma2", "gemma3_text", "olmo2", "smollm3");
  const bool narrow = GENERATE(false, true);
  INFO(family << (narrow ? ", autocast" : ""));
  std::optional<at::ScalarType> autocast;
  if (narrow) autocast = at::kBFloat16;
  const Outcome whole = pass(family, config::ActivationCheckpointing::kOff, autocast);
  const Outcome selective = pass(family, config::ActivationCheckpointing::kSelective, autocast);
  const Outcome full = pass(family, config::ActivationCheckpointing::kFull, autocast);
  const Outcome mlp = pass(family, config::ActivationCheckpointing::kMlp, autocast);
  for (const auto& [mode, each] :
       {std::pair{"selective", &selective}, {"full", &full}, {"mlp", &mlp}}) {
    INFO(mode);
    CHECK(at::equal(each->logits, whole.logits));
    for (size_t i = 0; i < whole.gradients.size(); ++i) {
      INFO("parameter " << whole.names[i]);
      REQUIRE(whole.gradients[i].defined());
      CHECK(at::equal(each->gradients[i], whole.gradients[i]));
    }
  }
  CHECK(full.live < selective.live);
  CHECK(selective.live < whole.live);
  CHECK(full.live < mlp.live);
  CHECK(mlp.live < whole.live);
}

TEST_CASE("a segment's backward runs once") {
  const at::Tensor x = at::ones({3}).set_requires_grad(true);
  int runs = 0;
  const auto square = [&runs](const nn::Tensors& in, nn::RecomputeTape&) -> nn::Tensors {
    ++runs;
    return {in[0] * in[0]};
  };
  const at::Tensor y = nn::checkpoint(square, {x}, false)[0];
  CHECK(runs == 1);
  y.sum().backward();
  CHECK(runs == 2);
  CHECK(at::equal(x.grad(), at::full({3}, 2.0)));
  CHECK_THROWS_AS(y.sum().backward(), Error);
  const at::NoGradGuard no_grad;
  CHECK_FALSE(nn::checkpoint(square, {x}, false)[0].requires_grad());
}

}  // namespace am
