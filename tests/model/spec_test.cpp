// Checks properties that the descriptions of all families' layers have for every config.
#include "am/model/spec.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

#include "am/model/inventory.h"
#include "family_cases.h"
#include "support/changed_config.h"
#include "support/published_model.h"

namespace {

using am::Diagnostics;
using am::model::Activation;
using am::model::AttentionSpec;
using am::model::DecoderSpec;
using am::model::describe;
using am::model::Inventory;
using am::model::LayerSpec;
using am::model::ModelConfig;
using am::model::ModuleKind;
using am::model::ModuleSpec;
using am::model::NormKind;
using am::model::Residual;
using am::model::Role;
using am::model::RouterSpec;
using am::model::Space;
using am::test::all_cases;

// Numbers of elements and of tensors.
struct Sum {
  int64_t numel = 0;
  int64_t tensors = 0;

  void add(const std::vector<ModuleSpec>& modules) {
    for (const ModuleSpec& module : modules) {
      numel += module.numel();
      tensors += module.tensors();
    }
  }
  bool operator==(const Sum&) const = default;
};

// Sums the parameters of one layer, or the parameters outside the layers if `layer` is -1.
Sum listed(const Inventory& inventory, int layer) {
  Sum sum;
  for (const auto& parameter : inventory.parameters) {
    if (parameter.layer != layer) continue;
    sum.numel += am::numel(parameter.shape);
    ++sum.tensors;
  }
  return sum;
}

TEST_CASE("slopes of ALiBi: powers of two, and the numbers between them") {
  using am::model::alibi_slopes;
  const auto exponents = [](int64_t heads, double exponent) {
    std::vector<double> made;
    for (const double slope : alibi_slopes(heads, exponent)) made.push_back(-std::log2(slope));
    return made;
  };
  CHECK(exponents(8, 8.0) == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(exponents(4, 16.0) == std::vector<double>{4, 8, 12, 16});
  CHECK(exponents(6, 8.0) == std::vector<double>{2, 4, 6, 8, 1, 3});
  CHECK(exponents(1, 8.0) == std::vector<double>{8});
  CHECK(alibi_slopes(112, 8.0).size() == 112);
}

TEST_CASE("a description's modules are the inventory's parameters, layer by layer") {
  for (const ModelConfig& config : all_cases()) {
    INFO(config.text);
    const DecoderSpec spec = describe(config);
    const Inventory inventory = build_inventory(config);
    REQUIRE(spec.kind_of_layer.size() == static_cast<size_t>(config.num_hidden_layers));
    Sum outside;
    outside.add(spec.before);
    outside.add(spec.after);
    CHECK(outside == listed(inventory, -1));
    Sum all = outside;
    for (int layer = 0; layer < config.num_hidden_layers; ++layer) {
      Sum of_layer;
      of_layer.add(spec.layer(layer).modules);
      CHECK(of_layer == listed(inventory, layer));
      all.add(spec.layer(layer).modules);
    }
    CHECK(all.numel == inventory.total());
  }
}

TEST_CASE("a role is there once in a layer, and distinct layers are described once") {
  for (const ModelConfig& config : all_cases()) {
    INFO(config.text);
    const DecoderSpec spec = describe(config);
    for (size_t i = 0; i < spec.kinds.size(); ++i) {
      std::set<Role> roles;
      for (const ModuleSpec& module : spec.kinds[i].modules) {
        if (module.role == Role::kOther) continue;
        CHECK(roles.insert(module.role).second);
        CHECK(spec.kinds[i].find(module.role) == &module);
      }
      for (size_t j = 0; j < i; ++j) CHECK_FALSE(spec.kinds[i] == spec.kinds[j]);
    }
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      CHECK(describe(config, layer) == spec.layer(layer));
    }
    REQUIRE(spec.find(Role::kHead) != nullptr);
    CHECK(spec.find(Role::kHead)->stored != spec.tied);
    CHECK(spec.find(Role::kEmbedding)->out == config.vocab_size);
  }
}

int64_t out_of(const LayerSpec& layer, Role role) {
  const ModuleSpec* module = layer.find(role);
  return module == nullptr ? 0 : module->out;
}

TEST_CASE("widths agree with the heads that attention counts") {
  for (const ModelConfig& config : all_cases()) {
    INFO(config.text);
    for (const LayerSpec& layer : describe(config).kinds) {
      const AttentionSpec& a = layer.attention;
      CHECK(layer.has(Role::kAttentionOut) == (a.heads > 0));
      if (a.heads == 0) continue;  // no attention, as in a Mamba layer
      CHECK(layer.find(Role::kAttentionOut)->in == a.heads * a.v_width);
      const int64_t queries = a.heads * (a.qk_width + (a.gated ? a.v_width : 0));
      if (a.latent) {
        CHECK(out_of(layer, Role::kQuery) + out_of(layer, Role::kQueryUp) == queries);
      } else if (a.fused == AttentionSpec::Fused::kNo) {
        CHECK(out_of(layer, Role::kQuery) == queries);
        CHECK(out_of(layer, Role::kKey) == a.key_heads * a.qk_width);
        CHECK(out_of(layer, Role::kValue) == a.key_heads * a.v_width);
      } else {
        CHECK(out_of(layer, Role::kQkv) == queries + a.key_heads * (a.qk_width + a.v_width));
      }
    }
  }
}

TEST_CASE("slices cover a fused matrix, and grains divide what they are of") {
  for (const ModelConfig& config : all_cases()) {
    INFO(config.text);
    for (const LayerSpec& layer : describe(config).kinds) {
      for (const ModuleSpec& module : layer.modules) {
        int64_t length = 0;
        for (const am::model::Slice& slice : module.slices) length += slice.length;
        const bool convolution = module.role == Role::kOther && module.stacked;
        CHECK((module.slices.empty() || length == (convolution ? module.copies : module.out)));
        CHECK(module.out % module.grain == 0);
      }
    }
  }
}

// Projections that read or write the residual stream must have the hidden size as width.
TEST_CASE("what reads the hidden state is as long as it, and so is what writes it") {
  for (const ModelConfig& config : all_cases()) {
    INFO(config.text);
    for (const LayerSpec& layer : describe(config).kinds) {
      for (const ModuleSpec& module : layer.modules) {
        if (module.in == 0) {
          const bool over_hidden =
              module.kind == ModuleKind::kNorm && module.from == Space::kHidden;
          if (over_hidden) CHECK(module.out == config.hidden_size);
          continue;
        }
        const int64_t latent = config.moe.has_value() ? config.moe->latent_width : 0;
        const int64_t of_row = latent > 0 ? latent : config.hidden_size;
        if (module.from == Space::kHidden) CHECK(module.in == config.hidden_size);
        if (module.to == Space::kHidden) CHECK(module.out == config.hidden_size);
        if (module.from == Space::kRouted) CHECK(module.in == of_row);
        if (module.to == Space::kRouted) CHECK(module.out == of_row);
      }
    }
  }
}

// The expected values are from the configurations and the modelling code of transformers 5.23.
TEST_CASE("families say what their layers compute beside Llama's") {
  const DecoderSpec gemma2 = describe(model_of("gemma-2-2b"));
  CHECK(gemma2.embedding_scale == std::sqrt(2304.0));
  CHECK(gemma2.logit_softcap == 30.0);
  CHECK(gemma2.layer(0).attention.softcap == 50.0);
  CHECK(gemma2.layer(0).attention.scale == 1.0 / 16);
  CHECK(gemma2.layer(0).attention.window == 4096);
  CHECK_FALSE(gemma2.layer(1).attention.window.has_value());
  CHECK(gemma2.layer(0).residual == Residual::kSandwich);
  CHECK(gemma2.layer(0).activation == Activation::kGeluTanh);
  CHECK(gemma2.layer(0).find(Role::kInputNorm)->norm == NormKind::kRmsPlusOne);

  const DecoderSpec gemma3 = describe(model_of("gemma-3-1b-pt"));
  REQUIRE(gemma3.ropes.size() == 2);
  CHECK(gemma3.ropes[0].theta == 1000000.0);
  CHECK(gemma3.ropes[1].theta == 10000.0);
  CHECK(gemma3.layer(0).attention.rope == 1);
  CHECK(gemma3.layer(5).attention.rope == 0);
  CHECK_FALSE(gemma3.layer(0).attention.softcap.has_value());
  // Gemma 3's config has the key attn_logit_softcapping, but the class does not apply it.
  const ModelConfig capped = am::test::changed_config(
      "gemma3_text", "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 50.0");
  CHECK_FALSE(describe(capped, 0).attention.softcap.has_value());

  const LayerSpec phi = describe(model_of("phi-2"), 0);
  CHECK(phi.attention.rotated == 32);
  // Llama's config may contain Phi's key partial_rotary_factor, but Llama's class rotates whole
  // heads.
  const ModelConfig llama =
      am::test::changed_config("llama", "\"rope_type\": \"llama3\"",
                               "\"rope_type\": \"llama3\", \"partial_rotary_factor\": 0.5");
  CHECK(describe(llama, 0).attention.rotated == llama.head_dim);
  CHECK(phi.residual == Residual::kParallelOneNorm);
  CHECK(phi.find(Role::kInputNorm)->norm == NormKind::kLayer);
  CHECK(describe(model_of("phi-4"), 0).attention.rotated == 128);

  const LayerSpec gpt2 = describe(model_of("gpt2"), 3);
  CHECK(gpt2.attention.rope == -1);
  CHECK(gpt2.attention.scale == 0.125);
  CHECK(gpt2.find(Role::kQkv)->in_out);
  CHECK(describe(model_of("falcon-7b"), 0).attention.fused == AttentionSpec::Fused::kConcatenated);
  CHECK(describe(model_of("olmo-2-1124-7b"), 0).residual == Residual::kPostNorm);
}

TEST_CASE("routers") {
  const auto router = [](const char* name, int64_t layer) {
    return describe(model_of(name), layer).router.value();
  };
  CHECK(router("mixtral-8x7b-v0.1", 0).normalise);
  CHECK(router("qwen3-30b-a3b", 0).normalise);
  CHECK_FALSE(router("deepseek-v2-lite", 1).normalise);
  CHECK(router("deepseek-v2-lite", 1).groups == 1);
  const RouterSpec v3 = router("deepseek-v3", 3);
  CHECK(v3.score == RouterSpec::Score::kSigmoid);
  CHECK(v3.groups == 8);
  CHECK(v3.topk_groups == 4);
  CHECK(v3.scale == 2.5);
  CHECK(v3.normalise);
  CHECK(v3.group_by_two_best);
  CHECK(describe(model_of("deepseek-v3"), 3).find(Role::kQueryDownNorm)->eps == 1e-6);
  const LayerSpec oss = describe(model_of("gpt-oss-20b"), 0);
  CHECK(oss.router->score == RouterSpec::Score::kSoftmaxOfTaken);
  CHECK(oss.attention.sinks);
  CHECK(oss.activation == Activation::kClampedSilu);
  CHECK(oss.activation_limit == 7.0);
  CHECK(oss.activation_alpha == 1.702);
}

TEST_CASE("SmolLM3 leaves every fourth layer without rotation, or those that its config lists") {
  const std::string text =
      R"({"model_type": "smollm3", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
          "num_attention_heads": 4, "num_hidden_layers": 4)";
  const DecoderSpec usual = describe(am::test::config_of(text + "}"));
  CHECK(usual.layer(0).attention.rope == 0);
  CHECK(usual.layer(3).attention.rope == -1);
  CHECK(usual.kinds.size() == 2);
  const DecoderSpec listed =
      describe(am::test::config_of(text + R"(, "no_rope_layers": [0, 1, 1, 1]})"));
  CHECK(listed.layer(0).attention.rope == -1);
  CHECK(listed.layer(3).attention.rope == 0);
}

}  // namespace
