#include "am/model/layer_profile.h"

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/model/inventory.h"
#include "family_cases.h"

namespace {

using am::model::layer_kinds;
using am::model::layer_profile;
using am::model::LayerProfile;
using am::model::ModelConfig;
using am::test::model_of;

// Returns the number of elements in a layer's tensors of two or more dims. In a dense layer, these
// are the matmul weights.
double matrices(const ModelConfig& config, int layer) {
  double total = 0.0;
  for (const auto& parameter : am::model::build_inventory(config).parameters) {
    if (parameter.layer == layer && parameter.shape.size() >= 2) {
      total += static_cast<double>(am::numel(parameter.shape));
    }
  }
  return total;
}

TEST_CASE("a dense layer multiplies with all of its matrices") {
  for (const char* name : {"llama-3.1-8b", "mistral-7b-v0.1", "qwen2.5-0.5b", "qwen3-0.6b"}) {
    INFO(name);
    const ModelConfig config = model_of(name);
    const LayerProfile profile = layer_profile(config, 1);
    CHECK(am::model::layer_matmul_parameters(profile, config.hidden_size) == matrices(config, 1));
    CHECK(layer_kinds(config).size() == 1);
    CHECK(layer_kinds(config)[0].layers.size() == static_cast<size_t>(config.num_hidden_layers));
  }
}

TEST_CASE("norms over heads and windows are in the profile") {
  const ModelConfig qwen3 = model_of("qwen3-0.6b");
  CHECK(layer_profile(qwen3, 0).attention.norm_width == (16 + 8) * 128);
  CHECK(layer_profile(model_of("llama-3.1-8b"), 0).attention.norm_width == 0);
  CHECK(layer_profile(model_of("gemma-3-1b-pt"), 0).attention.window == 512);
  CHECK_FALSE(layer_profile(model_of("gemma-3-1b-pt"), 5).attention.window.has_value());

  ModelConfig late = qwen3;
  late.sliding_window = 64;
  late.window_first_layer = 20;
  const auto runs = am::model::layer_runs(late);
  REQUIRE(runs.size() == 2);
  CHECK(runs[1].first == 20);
  CHECK(runs[1].count == 8);
  CHECK_FALSE(runs[0].profile.attention.window.has_value());
  CHECK(runs[1].profile.attention.window == 64);
}

TEST_CASE("experts that read low-rank vectors multiply with narrower matrices") {
  const ModelConfig config = am::test::config_of(std::string(
      R"({"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 32,
          "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
          "hybrid_override_pattern": "E", "n_routed_experts": 4, "num_experts_per_tok": 2,
          "moe_intermediate_size": 20, "moe_shared_expert_intermediate_size": 12,
          "moe_latent_size": 24})"));
  const LayerProfile profile = layer_profile(config, 0);
  CHECK(profile.feed_forward.latent_width == 24);
  CHECK_FALSE(profile.feed_forward.gated);
  CHECK(am::model::layer_matmul_parameters(profile, 32) ==
        4 * 32 + 2 * 24 * 32 + 2 * 12 * 32 + 2 * (2 * 20 * 24));
  CHECK(layer_profile(model_of("qwen3-30b-a3b"), 0).feed_forward.latent_width == 0);
}

}  // namespace
