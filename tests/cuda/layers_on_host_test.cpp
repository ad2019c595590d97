// Compares decoder layers that compute with the GPU's kernels (run on the host) with layers
// that compute with the host's own kernels. Covers nine families and every mode of activation
// checkpointing.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/model/config.h"
#include "am/model/inventory.h"
#include "am/nn/decoder.h"
#include "cuda/host_kernels.h"
#include "support/folders.h"

namespace am::nn {
namespace {

// While an OwnKernels exists, operators on host tensors use the host's own kernels.
class OwnKernels {
 public:
  OwnKernels() { tensor::use_on_host(nullptr); }
  ~OwnKernels() { tensor::use_on_host(&test::host_kernels()); }
  OwnKernels(const OwnKernels&) = delete;
  OwnKernels& operator=(const OwnKernels&) = delete;
};

struct Passed {
  at::Tensor y;
  Tensors gradients;  // of x, then of the parameters
};

// Runs `layer` forward and backward. Returns the output and the gradients, and clears the
// parameters' gradients.
Passed pass(const DecoderLayer& layer, const at::Tensor& x, const Rotation& rotation,
            layout::SavedSet kept, const std::vector<ParameterPtr>& parameters) {
  const at::Tensor input = x.clone().set_requires_grad(true);
  const at::Tensor y = layer(input, rotation, kept);
  (y * at::arange(y.numel(), at::kFloat).view(y.sizes()).sin()).sum().backward();
  Passed passed = {y.detach(), {input.grad()}};
  for (const ParameterPtr& each : parameters) {
    const at::Tensor& gradient = each->value.grad();
    passed.gradients.push_back(gradient.defined() ? gradient.clone() : at::zeros({1}));
    each->value.mutable_grad() = at::Tensor();
  }
  return passed;
}

bool close(const at::Tensor& a, const at::Tensor& b) {
  const double scale = std::max(1e-6, b.abs().max().item<double>());
  return (a - b).abs().max().item<double>() <= 2e-5 * scale;
}

}  // namespace

TEST_CASE("layers by GPU kernels equal layers by the host's kernels") {
  const std::string family = GENERATE("llama", "olmo2", "gemma2", "falcon-7b", "gpt2", "qwen3",
                                      "deepseek_v3", "gpt_oss", "mixtral");
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
    Rotation rotation;
    if (layer.self_attn.rope >= 0) {
      const model::RopeConfig& rope =
          inventory.spec.ropes[static_cast<size_t>(layer.self_attn.rope)];
      for (const model::LayerSpec& kind : inventory.spec.kinds) {
        if (kind.attention.rope != layer.self_attn.rope) continue;
        rotation = make_rotation(rope_inverse_frequencies(rope, kind.attention.rotated, length), 0,
                                 length, at::kFloat);
      }
    }
    for (const auto mode :
         {config::ActivationCheckpointing::kOff, config::ActivationCheckpointing::kFull,
          config::ActivationCheckpointing::kSelective, config::ActivationCheckpointing::kMlp}) {
      INFO("mode " << static_cast<int>(mode));
      const auto kept = layout::kept_under(mode, layer.residual);
      const auto passed = [&] { return pass(layer, x, rotation, kept, decoder.parameters()); };
      const int64_t before = test::launches();
      const Passed by_kernels = passed();
      CHECK((family == "gpt2" || test::launches() > before));
      const OwnKernels own;
      const Passed wanted = passed();
      CHECK(close(by_kernels.y, wanted.y));
      for (size_t i = 0; i < wanted.gradients.size(); ++i) {
        INFO((i == 0 ? std::string("x") : decoder.parameters()[i - 1]->name));
        CHECK(close(by_kernels.gradients[i], wanted.gradients[i]));
      }
    }
  }
}

}  // namespace am::nn
