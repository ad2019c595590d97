// Tests the predicted activations that autograd saves for one layer, family by family.
#include <catch2/catch.hpp>

#include "am/model/spec.h"
#include "am/predict/memory/layer_activations.h"
#include "layout/plan_text.h"
#include "model/family_cases.h"

namespace {

using am::Diagnostics;
using am::layout::Saved;
using am::predict::ActivationContext;
using am::predict::LayerActivations;
using am::test::model_of;
using am::test::plan_of;

// A plan, its model and its layout. layer() and bytes() describe the first decoder layer on rank 0.
struct Planned {
  am::config::Plan plan;
  am::model::ModelConfig config;
  am::layout::Layout layout;
  ActivationContext context;

  Planned(const std::string& model, const std::string& text)
      : plan(plan_of(text, model)),
        config(model_of(model)),
        layout(am::test::layout_of(plan, config)),
        context(am::predict::activation_context(plan, layout)) {}

  LayerActivations layer() const { return {context, layout, 0, layout.units.at(1)}; }
  double bytes(Saved saved) const { return layer().bytes(saved); }
};

TEST_CASE("attention's output is kept in every family") {
  for (const char* model : {"llama-3.1-8b", "phi-2", "phi-4", "gpt2", "falcon-7b", "olmo-2-1124-7b",
                            "gpt-oss-20b", "deepseek-v2-lite", "mixtral-8x7b-v0.1"}) {
    INFO(model);
    const Planned one(model, "[mesh]\nworld_size = 1\n[train]\nseq_len = 256\n");
    const am::model::AttentionSpec attention = describe(one.config, 0).attention;
    const auto width = static_cast<double>(attention.heads * attention.v_width);
    CHECK(one.bytes(Saved::kAttentionOutput) == 256 * width * 2);
  }
}

TEST_CASE("gated attention keeps its queries and its gate, each once") {
  const std::string sizes =
      R"({"model_type": "qwen3_next", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
          "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
          "head_dim": 16, "num_experts": 0, "layer_types": ["full_attention"]})";
  const am::model::ModelConfig config = am::test::config_of(sizes);
  const auto plan = plan_of("[mesh]\nworld_size = 1\n[train]\nseq_len = 256\n");
  const am::layout::Layout layout = am::test::layout_of(plan, config);
  const LayerActivations layer(am::predict::activation_context(plan, layout), layout, 0,
                               layout.units.at(1));
  const double queries = 4 * 16, keys = 2 * 16;
  CHECK(layer.bytes(Saved::kHeads) == 256 * (2 * queries + 2 * keys) * 2);
  CHECK(layer.bytes(Saved::kAttentionOutput) == 256 * queries * 2);
  CHECK(layer.bytes(Saved::kAttentionStatistics) == 256 * 4 * 4);
}

// Nemotron-H with an MLP, attention and experts that read vectors of 24 elements.
const std::string kSingleBlocks =
    R"({"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "hybrid_override_pattern": "-*E", "n_routed_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 20, "moe_shared_expert_intermediate_size": 12,
        "moe_latent_size": 24})";

TEST_CASE("a layer of one block saves nothing for the other block") {
  const am::model::ModelConfig config = am::test::config_of(kSingleBlocks);
  const auto plan = plan_of("[mesh]\nworld_size = 1\n[train]\nseq_len = 256\n");
  const am::layout::Layout layout = am::test::layout_of(plan, config);
  const ActivationContext context = am::predict::activation_context(plan, layout);
  const auto bytes = [&](size_t layer, Saved saved) {
    return LayerActivations(context, layout, 0, layout.units.at(1 + layer)).bytes(saved) / 512.0;
  };
  for (const size_t layer : {0, 1, 2}) {
    INFO(layer);
    CHECK(bytes(layer, Saved::kSumAfterAttention) == 0.0);
    CHECK(bytes(layer, Saved::kAttentionOutput) == (layer == 1 ? 64.0 : 0.0));
    CHECK(bytes(layer, Saved::kFeedForwardNormOutput) == (layer == 1 ? 0.0 : 32.0));
  }
  CHECK(bytes(0, Saved::kUp) == 48.0);
  CHECK(bytes(1, Saved::kUp) == 0.0);
  CHECK(bytes(2, Saved::kUp) == 12.0 + 2 * 20.0);
  // For each token: the input rows of two experts and, in float32, the scores of four experts and
  // the routing weights of two.
  CHECK(bytes(2, Saved::kRoutedTokens) == 2 * 24.0 + (4 + 2) * 2.0);
}

TEST_CASE("each tp rank keeps what its own heads need") {
  const std::string train = "[train]\nseq_len = 256\n";
  for (const char* model :
       {"phi-2", "phi-4", "olmo-2-1124-7b", "gpt2", "deepseek-v2-lite", "deepseek-v3"}) {
    INFO(model);
    const Planned one(model, "[mesh]\nworld_size = 1\n" + train);
    const Planned two(model, "[mesh]\nworld_size = 2\ntp_size = 2\n" + train);
    for (const Saved what : {Saved::kAttentionOutput, Saved::kAttentionStatistics}) {
      CHECK(two.bytes(what) == one.bytes(what) / 2);
    }
    if (one.config.mla) continue;  // every rank holds the low-rank vectors of latent attention
    CHECK(two.bytes(Saved::kHeads) == one.bytes(Saved::kHeads) / 2);
  }
  // Under both layouts a rank holds the only key head, of width 64.
  const Planned one("falcon-7b", "[mesh]\nworld_size = 1\n" + train);
  const Planned two("falcon-7b", "[mesh]\nworld_size = 71\ntp_size = 71\n" + train);
  CHECK(two.bytes(Saved::kHeads) == 256 * 3 * 64 * 2);
  CHECK(one.bytes(Saved::kHeads) == 256 * 73 * 64 * 2);
}

TEST_CASE("uneven slices of a feed-forward are measured, with a gate and without") {
  const std::string text = "[mesh]\nworld_size = 5\ntp_size = 5\n[train]\nseq_len = 256\n";
  CHECK(Planned("gpt2", text).bytes(Saved::kUp) == 256 * 615 * 2);    // 615 of 3072 columns
  CHECK(Planned("phi-4", text).bytes(Saved::kUp) == 256 * 3584 * 2);  // 3584 of 17920 columns
}

// Every checkpointing mode keeps fewer bytes than kOff. kFull keeps only the layer's input and the
// choice of experts.
TEST_CASE("a mode keeps a part of what the layer saves") {
  for (const char* model : {"llama-3.1-8b", "qwen3-0.6b", "phi-2", "mixtral-8x7b-v0.1"}) {
    INFO(model);
    const Planned plan(model, "[mesh]\nworld_size = 1\n[train]\nseq_len = 256\n");
    const am::model::Residual residual = describe(plan.config, 0).residual;
    const auto sum = [&](am::config::ActivationCheckpointing mode) {
      double bytes = 0.0;
      for (size_t i = 0; i < am::layout::kSavedKinds; ++i) {
        const auto each = static_cast<Saved>(i);
        if (am::layout::kept_under(mode, residual).has(each)) bytes += plan.bytes(each);
      }
      return bytes;
    };
    using enum am::config::ActivationCheckpointing;
    CHECK(plan.layer().kept() == sum(kOff));
    CHECK(sum(kFull) == plan.bytes(Saved::kLayerInput) + plan.bytes(Saved::kRouting));
    CHECK(sum(kFull) < sum(kSelective));
    CHECK(sum(kSelective) < sum(kOff));
    CHECK(sum(kMlp) < sum(kOff));
  }
}

const std::string kAutocast =
    "[mesh]\nworld_size = 1\n[train]\nseq_len = 256\n[strategy]\nautocast_dtype = \"bfloat16\"\n"
    "mp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", "
    "output_dtype = \"float32\" }\n";

// Under autocast, each matrix that reads the hidden state saves its own bfloat16 copy.
TEST_CASE("autocast keeps an input for each matrix that there is") {
  const auto copies = [&](const char* model, Saved what) {
    const Planned plan(model, kAutocast);
    return plan.bytes(what) / (256.0 * static_cast<double>(plan.config.hidden_size) * 2.0);
  };
  CHECK(copies("llama-3.1-8b", Saved::kAttentionInput) == 3.0);
  CHECK(copies("gpt2", Saved::kAttentionInput) == 1.0);
  CHECK(copies("phi-4", Saved::kAttentionInput) == 1.0);
  CHECK(copies("deepseek-v3", Saved::kAttentionInput) == 2.0);
  CHECK(copies("llama-3.1-8b", Saved::kFeedForwardInput) == 2.0);
  CHECK(copies("gpt2", Saved::kFeedForwardInput) == 1.0);
  CHECK(copies("phi-4", Saved::kFeedForwardInput) == 1.0);
  // The router reads its input in float32. This copy has the bytes of two bfloat16 copies.
  CHECK(copies("mixtral-8x7b-v0.1", Saved::kFeedForwardInput) == 2.0);
}

TEST_CASE("a GPU's loss copies a chunk of logits where no kernel reads them") {
  const auto copied = [](const std::string& backend, const std::string& train) {
    const Planned plan("llama-3.1-8b", am::cat("[mesh]\nworld_size = 1\n[strategy]\nbackend = \"",
                                               backend, "\"\n[train]\nseq_len = 256\n", train));
    const double vocabulary = static_cast<double>(plan.config.vocab_size);
    return am::predict::logits_bytes(plan.context, vocabulary) -
           am::predict::logits_gradient_bytes(plan.context, vocabulary);
  };
  const double chunk = 256.0 * 128256.0 * 4.0;
  for (const char* terms : {"label_smoothing = 0.1\n", "z_loss = 1e-4\n"}) {
    CHECK(copied("nccl", terms) - copied("nccl", "") == chunk);
    CHECK(copied("gloo", terms) == copied("gloo", ""));
  }
}

TEST_CASE("a feed-forward that is computed again casts its own matrices again") {
  for (const char* model : {"gpt2", "phi-4", "llama-3.2-1b"}) {
    INFO(model);
    const Planned plan(model, kAutocast + "activation_checkpointing = \"mlp\"\n");
    ActivationContext whole = plan.context;
    whole.checkpointing = am::config::ActivationCheckpointing::kOff;
    const auto kept = [&](const ActivationContext& context) {
      return layer_activations(context, plan.layout, 0, plan.layout.units.at(1));
    };
    const double N = 256.0;
    const auto D = static_cast<double>(plan.config.hidden_size);
    const auto F = static_cast<double>(plan.config.intermediate_size);
    const double matrices = plan.config.gated_mlp ? 3.0 : 2.0;
    // The outputs of gate and up, or of up alone, are recomputed; the input of down is computed
    // from them.
    const double wide = plan.config.gated_mlp ? 2.0 : 1.0;
    const double inside = N * wide * F * 2.0 + plan.bytes(Saved::kFeedForwardInput);
    CHECK(kept(whole) - kept(plan.context) ==
          inside + matrices * D * F * 2.0 - N * D * plan.context.compute_bytes);
  }
}

}  // namespace
