// Compares DecoderLayer, in every mode of activation checkpointing, with plain_layer(), which
// computes the layer's equation without checkpointing.
#include "am/nn/decoder_layer.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/model/config.h"
#include "am/model/inventory.h"
#include "am/model/rope_config.h"
#include "am/nn/decoder.h"
#include "support/folders.h"

namespace am::nn {
namespace {

// Returns the rotation of positions 0 to `length` - 1 for a layer, or an empty Rotation if the
// layer does not rotate its heads.
Rotation rotation_of(const model::DecoderSpec& spec, const DecoderLayer& layer, int64_t length) {
  if (layer.self_attn.rope < 0) return {};
  const model::RopeConfig& rope = spec.ropes[static_cast<size_t>(layer.self_attn.rope)];
  for (const model::LayerSpec& kind : spec.kinds) {
    if (kind.attention.rope != layer.self_attn.rope) continue;
    return make_rotation(rope_inverse_frequencies(rope, kind.attention.rotated, length), 0, length,
                         at::kFloat, model::attention_factor(rope));
  }
  FAIL("no layer has this rotation");
  return {};
}

struct Passed {
  at::Tensor y;
  Tensors gradients;  // of x, then of the parameters
};

// Runs `layer` forward and backward and clears the gradients.
Passed pass(const std::function<at::Tensor(const at::Tensor&)>& layer, const at::Tensor& x,
            const std::vector<ParameterPtr>& parameters) {
  const at::Tensor input = x.clone().set_requires_grad(true);
  Passed passed;
  const at::Tensor y = layer(input);
  (y * at::arange(y.numel(), at::kFloat).view(y.sizes()).sin()).sum().backward();
  passed.y = y.detach();
  passed.gradients.push_back(input.grad());
  for (const ParameterPtr& each : parameters) {
    const at::Tensor& gradient = each->value.grad();
    passed.gradients.push_back(gradient.defined() ? gradient.clone() : at::zeros({1}));
    each->value.mutable_grad() = at::Tensor();
  }
  return passed;
}

bool close(const at::Tensor& a, const at::Tensor& b) {
  const double scale = std::max(1e-6, b.abs().max().item<double>());
  return (a - b).abs().max().item<double>() <= 1e-5 * scale;
}

}  // namespace

TEST_CASE("layers equal their equation in every mode of checkpointing") {
  // The families cover pre-norm, post-norm and both, parallel blocks with one norm and with two,
  // fused projections, head norms, windows, latent attention, sinks and experts.
  const std::string family =
      GENERATE("llama", "olmo2", "gemma2", "gemma3_text", "falcon", "phi", "falcon-7b", "gpt2",
               "phi3", "qwen3", "deepseek_v2", "deepseek_v3", "gpt_oss", "mixtral", "qwen2_moe");
  INFO(family);
  Diagnostics found;
  const auto config = model::load_config(cat(test::kDataFolder, "/hf/", family), found);
  REQUIRE(config.has_value());
  const auto inventory = model::build_inventory(*config);
  Decoder decoder(*config, inventory);
  at::manual_seed(7);
  for (size_t i = 0; i < decoder.parameters().size(); ++i) {
    const at::Tensor value = at::randn(inventory.parameters[i].shape) * 0.1 + 0.05;
    decoder.parameters()[i]->value = value.set_requires_grad(true);
  }
  const int64_t length = 24;
  const at::Tensor x = at::randn({2, length, config->hidden_size});
  for (const DecoderLayer& layer : decoder.layers()) {
    const Rotation rotation = rotation_of(inventory.spec, layer, length);
    const Passed plain =
        pass([&](const at::Tensor& in) { return plain_layer(layer, in, rotation); }, x,
             decoder.parameters());
    for (const auto mode :
         {config::ActivationCheckpointing::kOff, config::ActivationCheckpointing::kFull,
          config::ActivationCheckpointing::kSelective, config::ActivationCheckpointing::kMlp}) {
      INFO("mode " << static_cast<int>(mode));
      const auto kept = layout::kept_under(mode, layer.residual);
      const Passed own = pass([&](const at::Tensor& in) { return layer(in, rotation, kept); }, x,
                              decoder.parameters());
      CHECK(close(own.y, plain.y));
      for (size_t i = 0; i < own.gradients.size(); ++i) {
        INFO((i == 0 ? std::string("x") : decoder.parameters()[i - 1]->name));
        CHECK(close(own.gradients[i], plain.gradients[i]));
      }
    }
  }
}

}  // namespace am::nn
