// Tests that backward in two halves, input gradients first and weight gradients later, is bitwise
// equal to a single backward.
#include "am/nn/weight_pass.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/model/config.h"
#include "am/model/inventory.h"
#include "am/nn/decoder.h"
#include "am/nn/fused/linear.h"
#include "am/nn/fused/product.h"
#include "support/folders.h"
#include "support/live_bytes.h"

namespace am {
namespace {

using config::ActivationCheckpointing;
using nn::WeightPass;

constexpr int64_t kPassRows = 2;
constexpr int64_t kPassLength = 16;

struct HalvesSetting {
  ActivationCheckpointing checkpointing = ActivationCheckpointing::kOff;
  std::optional<at::ScalarType> autocast = {};
  at::ScalarType dtype = at::kFloat;
};

// A family's decoder with reproducible values.
class HalvedModel {
 public:
  HalvedModel(const std::string& family, const HalvesSetting& setting) {
    Diagnostics found;
    config_ = model::load_config(cat(test::kDataFolder, "/hf/", family), found);
    REQUIRE(config_.has_value());
    inventory_ = model::build_inventory(*config_);
    decoder_ = std::make_unique<nn::Decoder>(*config_, inventory_);
    at::manual_seed(7);
    for (size_t i = 0; i < inventory_.parameters.size(); ++i) {
      at::Tensor value = (at::randn(inventory_.parameters[i].shape) * 0.1).to(setting.dtype);
      decoder_->parameters()[i]->value = value.set_requires_grad(true);
    }
    decoder_->set_checkpointing(setting.checkpointing);
    decoder_->set_autocast(setting.autocast);
    ids_BT = at::randint(config_->vocab_size, {kPassRows, kPassLength}, at::kLong);
  }

  const model::ModelConfig& config() const { return *config_; }
  at::Tensor loss(int64_t m = 0) {
    const at::Tensor ids = (ids_BT + m).remainder(config_->vocab_size);
    return (*decoder_)(ids).to(at::kFloat).square().sum();
  }
  // Returns whether the pass postpones the parameter's gradient: true for matrices and embedding
  // tables.
  bool postponed(size_t i) const {
    const model::ParameterSpec& spec = inventory_.parameters[i];
    return !spec.bias && spec.shape.size() > 1;
  }
  const std::string& name(size_t i) const { return inventory_.parameters[i].name; }
  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const auto& parameter : decoder_->parameters()) all.push_back(parameter->value.grad());
    return all;
  }

  at::Tensor ids_BT;

 private:
  std::optional<model::ModelConfig> config_;
  model::Inventory inventory_;
  std::unique_ptr<nn::Decoder> decoder_;
};

void check_same_bits(const HalvedModel& model, const std::vector<at::Tensor>& got,
                     const std::vector<at::Tensor>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO(model.name(i));
    REQUIRE(got[i].defined() == wanted[i].defined());
    if (wanted[i].defined()) CHECK(at::equal(got[i], wanted[i]));
  }
}

std::vector<at::Tensor> at_once(const std::string& family, const HalvesSetting& setting,
                                bool in_pass) {
  HalvedModel model(family, setting);
  const nn::WeightPassScope scope(in_pass ? c10::make_intrusive<WeightPass>() : nullptr);
  model.loss().backward();
  return model.gradients();
}

void check_in_halves(const std::string& family, const HalvesSetting& setting, bool plain_is_ours) {
  const std::vector<at::Tensor> wanted = at_once(family, setting, /*in_pass=*/!plain_is_ours);
  HalvedModel model(family, setting);
  const auto pass = c10::make_intrusive<WeightPass>();
  at::Tensor loss;
  {
    const nn::WeightPassScope scope(pass);
    loss = model.loss();
  }
  CHECK(nn::current_weight_pass() == nullptr);
  {
    const WeightPass::Postponed inputs(*pass);
    loss.backward();
  }
  const std::vector<at::Tensor> of_inputs = model.gradients();
  for (size_t i = 0; i < of_inputs.size(); ++i) {
    INFO(model.name(i));
    CHECK(of_inputs[i].defined() == (wanted[i].defined() && !model.postponed(i)));
  }
  CHECK(pass->deferred() > 0);
  pass->settle();
  CHECK(pass->deferred() == 0);
  check_same_bits(model, model.gradients(), wanted);
}

}  // namespace

TEST_CASE("inputs first and weights later give the bits of both at once", "[weight_pass]") {
  const std::string family =
      GENERATE("llama", "llama-bias", "gemma2", "gpt2", "phi3", "phi-tied", "falcon", "olmo2",
               "qwen3_moe", "qwen2_moe", "gpt_oss", "deepseek_v3", "mixtral", "granitemoe");
  const auto mode = GENERATE(ActivationCheckpointing::kOff, ActivationCheckpointing::kFull,
                             ActivationCheckpointing::kSelective, ActivationCheckpointing::kMlp);
  INFO(family << ", checkpointing " << static_cast<int>(mode));
  // Without oneDNN, the expected gradients are also computed in a weight pass. Outside a weight
  // pass, at::linear's own autograd node swaps the sides of the product and rounds differently.
  check_in_halves(family, {.checkpointing = mode}, nn::fused::multiplies_with_onednn());
}

TEST_CASE("under autocast, and in float64, too", "[weight_pass]") {
  const std::string family =
      GENERATE("llama", "gpt2", "phi3", "gpt_oss", "qwen3_moe", "granitemoe");
  const auto mode = GENERATE(ActivationCheckpointing::kOff, ActivationCheckpointing::kFull);
  INFO(family << ", checkpointing " << static_cast<int>(mode));
  check_in_halves(family, {.checkpointing = mode, .autocast = at::kBFloat16}, false);
  check_in_halves(family, {.checkpointing = mode, .dtype = at::kDouble}, false);
}

// An active pass that postpones nothing leaves backward unchanged.
TEST_CASE("a pass in force changes nothing by itself", "[weight_pass]") {
  const std::string family = GENERATE("llama", "qwen3_moe");
  HalvedModel model(family, {});
  const auto inside = at_once(family, {}, true), outside = at_once(family, {}, false);
  if (nn::fused::multiplies_with_onednn()) {
    check_same_bits(model, inside, outside);
  } else {
    for (size_t i = 0; i < inside.size(); ++i)
      CHECK(at::allclose(inside[i], outside[i], 1e-5, 1e-5));
  }
}

// Between the two halves of backward, the postponed products of each layer, of the embedding and of
// the head keep their inputs and the gradients of their outputs.
TEST_CASE("between the halves the operands of the owed products are kept, and no longer",
          "[weight_pass]") {
  const auto mode = GENERATE(ActivationCheckpointing::kOff, ActivationCheckpointing::kFull);
  HalvedModel model("llama", {.checkpointing = mode});
  const model::ModelConfig& config = model.config();
  const auto pass = c10::make_intrusive<WeightPass>();
  const test::LiveBytes live;
  at::Tensor loss;
  {
    const nn::WeightPassScope scope(pass);
    loss = model.loss();
  }
  {
    const WeightPass::Postponed inputs(*pass);
    loss.backward();
  }
  loss.reset();
  const auto bytes_of_gradients = [&] {
    int64_t bytes = 0;
    for (const at::Tensor& gradient : model.gradients()) {
      if (gradient.defined()) bytes += static_cast<int64_t>(gradient.nbytes());
    }
    return bytes;
  };
  const int64_t d = config.hidden_size, f = config.intermediate_size;
  const int64_t hk = config.num_attention_heads * config.head_dim;
  const int64_t gk = config.num_key_value_heads * config.head_dim;
  const int64_t of_layer = 4 * d + 2 * hk + 2 * gk + 3 * f;
  // The head's input, the gradient of its output, and the gradient of the embedding's output.
  const int64_t of_ends = d + config.vocab_size + d;
  const int64_t n = kPassRows * kPassLength;
  const int64_t wanted = 4 * n * (config.num_hidden_layers * of_layer + of_ends);
  const int64_t kept = live.count() - bytes_of_gradients();
  CHECK(static_cast<double>(kept) == Approx(static_cast<double>(wanted)).epsilon(0.02));
  pass->settle();
  const int64_t left = live.count() - bytes_of_gradients();
  CHECK(static_cast<double>(left) < 0.02 * static_cast<double>(wanted));
}

TEST_CASE("passes of several micro-batches are settled one by one, in any order", "[weight_pass]") {
  HalvedModel model("llama", {});
  std::vector<nn::WeightPassPtr> passes;
  for (int m = 0; m < 3; ++m) {
    passes.push_back(c10::make_intrusive<WeightPass>());
    at::Tensor loss;
    {
      const nn::WeightPassScope scope(passes.back());
      loss = model.loss(m);
    }
    const WeightPass::Postponed inputs(*passes.back());
    loss.backward();
  }
  for (size_t m : {1U, 0U, 2U}) {
    const size_t owed_by_last = passes[2]->deferred();
    passes[m]->settle();
    CHECK(passes[m]->deferred() == 0);
    if (m != 2) CHECK(passes[2]->deferred() == owed_by_last);
  }
  HalvedModel again("llama", {});
  for (int m = 0; m < 3; ++m) {
    const nn::WeightPassScope scope(c10::make_intrusive<WeightPass>());
    again.loss(m).backward();
  }
  check_same_bits(model, model.gradients(), again.gradients());
}

TEST_CASE("a scope gives back what was in force before it", "[weight_pass]") {
  const auto outer = c10::make_intrusive<WeightPass>();
  const nn::WeightPassScope scope(outer);
  {
    const nn::WeightPassScope none(nullptr);
    CHECK(nn::current_weight_pass() == nullptr);
  }
  CHECK(nn::current_weight_pass() == outer);
}

}  // namespace am
