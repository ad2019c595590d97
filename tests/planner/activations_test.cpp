// What autograd keeps of one layer, family by family.
#include "am/planner/activations.h"

#include <catch2/catch.hpp>

#include "am/model/spec.h"
#include "plan_text.h"

namespace {

using am::Diagnostics;
using am::planner::ActivationContext;
using am::planner::SavedTensor;
using am::test::model_of;
using am::test::plan_of;

// Everything about rank 0 of a plan.
struct Planned {
  am::config::Plan plan;
  am::model::ModelConfig config;
  am::planner::Layout layout;
  ActivationContext context;

  Planned(const std::string& model, const std::string& text)
      : plan(plan_of(text, model)),
        config(model_of(model)),
        layout(layout_of(plan, config)),
        context(am::planner::activation_context(plan, layout.mesh)) {}

  static am::planner::Layout layout_of(const am::config::Plan& plan,
                                       const am::model::ModelConfig& config) {
    Diagnostics found;
    const auto sizes = am::planner::resolve_mesh(plan, 0, found);
    REQUIRE(sizes.has_value());
    auto layout = am::planner::build_layout(plan, config, *sizes, found);
    REQUIRE(layout.has_value());
    return *std::move(layout);
  }

  double bytes(std::string_view what) const {
    double sum = 0.0;
    for (const SavedTensor& each : layer_tensors(context, config, layout, 0, layout.units.at(1))) {
      if (each.what == what) sum += each.bytes;
    }
    return sum;
  }
};

TEST_CASE("attention's output is kept in every family") {
  for (const char* model : {"llama-3.1-8b", "phi-2", "phi-4", "gpt2", "falcon-7b", "olmo-2-1124-7b",
                            "gpt-oss-20b", "deepseek-v2-lite", "mixtral-8x7b-v0.1"}) {
    INFO(model);
    const Planned one(model, "[mesh]\nworld_size = 1\n[train]\nseq_len = 256\n");
    const am::model::AttentionSpec attention = describe(one.config, 0).attention;
    const auto width = static_cast<double>(attention.heads * attention.v_width);
    CHECK(one.bytes("attention output") == 256 * width * 2);
  }
}

// Phi-3's fused matrix gives whole heads, OLMo 2's projections are gathered for their norms.
TEST_CASE("attention that is whole on every tp rank is not divided") {
  const std::string train = "[train]\nseq_len = 256\n";
  for (const char* model : {"phi-4", "olmo-2-1124-7b", "gpt2", "falcon-7b", "deepseek-v2-lite"}) {
    INFO(model);
    const Planned one(model, "[mesh]\nworld_size = 1\n" + train);
    const Planned two(model, "[mesh]\nworld_size = 2\ntp_size = 2\n" + train);
    for (const char* what : {"queries, keys, values", "attention output", "attention statistics"}) {
      CHECK(two.bytes(what) == one.bytes(what));
    }
  }
  const Planned one("phi-2", "[mesh]\nworld_size = 1\n" + train);
  const Planned two("phi-2", "[mesh]\nworld_size = 2\ntp_size = 2\n" + train);
  CHECK(two.bytes("attention output") == one.bytes("attention output") / 2);
}

const std::string kAutocast =
    "[mesh]\nworld_size = 1\n[train]\nseq_len = 256\n[strategy]\nautocast_dtype = \"bfloat16\"\n"
    "mp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", "
    "output_dtype = \"float32\" }\n";

// One narrowed copy of the hidden state for each matrix that reads it.
TEST_CASE("autocast keeps an input for each matrix that there is") {
  const auto copies = [&](const char* model, const char* what) {
    const Planned plan(model, kAutocast);
    return plan.bytes(what) / (256.0 * static_cast<double>(plan.config.hidden_size) * 2.0);
  };
  CHECK(copies("llama-3.1-8b", "input of q, k, v") == 3.0);
  CHECK(copies("gpt2", "input of q, k, v") == 1.0);
  CHECK(copies("phi-4", "input of q, k, v") == 1.0);
  CHECK(copies("deepseek-v3", "input of q, k, v") == 2.0);
  CHECK(copies("llama-3.1-8b", "input of gate, up") == 2.0);
  CHECK(copies("gpt2", "input of gate, up") == 1.0);
  CHECK(copies("phi-4", "input of gate, up") == 1.0);
  CHECK(copies("mixtral-8x7b-v0.1", "input of gate, up") == 1.0);
}

TEST_CASE("a feed-forward that is computed again casts its own matrices again") {
  for (const char* model : {"gpt2", "phi-4", "llama-3.2-1b"}) {
    INFO(model);
    const Planned plan(model, kAutocast + "activation_checkpointing = \"mlp\"\n");
    ActivationContext whole = plan.context;
    whole.checkpointing = am::config::ActivationCheckpointing::kOff;
    const auto kept = [&](const ActivationContext& context) {
      return layer_activations(context, plan.config, plan.layout, 0, plan.layout.units.at(1));
    };
    const double N = 256.0;
    const auto D = static_cast<double>(plan.config.hidden_size);
    const auto F = static_cast<double>(plan.config.intermediate_size);
    const double matrices = plan.config.gated_mlp ? 3.0 : 2.0;
    // Gate and up, or up and the input of down, which is made of gate and up where there is a gate.
    const double inside = N * 2.0 * F * 2.0 + plan.bytes("input of gate, up");
    CHECK(kept(whole) - kept(plan.context) ==
          inside + matrices * D * F * 2.0 - N * D * plan.context.compute_bytes);
  }
}

}  // namespace
