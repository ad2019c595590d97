// Tests a plan with LoRA: only the adapters are trainable and have gradients and optimizer states.
#include "am/layout/adapters.h"

#include <catch2/catch.hpp>

#include "am/predict/memory/memory.h"
#include "layout/plan_text.h"

namespace {

using am::layout::Layout;
using am::layout::ParameterLayout;
using am::test::layout_of;
using am::test::model_of;
using am::test::plan_of;

TEST_CASE("adapters alone are trained, and what they need is counted") {
  const std::string text =
      "[mesh]\nworld_size = 4\ntp_size = 2\n[lora]\nrank = 16\ntarget_modules = [\"q_proj\", "
      "\"o_proj\"]\n";
  const auto plan = plan_of(text);
  const Layout layout = layout_of(text);
  int64_t stored = 0;
  for (const ParameterLayout& parameter : layout.parameters) {
    INFO(parameter.name);
    const bool adapter = parameter.name.find(".lora_") != std::string::npos;
    CHECK(parameter.trainable == adapter);
    if (adapter) stored += parameter.stored_numel(layout.mesh, 0);
  }
  // Both adapted matrices are 4096 x 4096, so an adapter's factors A and B have 16 * 4096 elements
  // each. FSDP shards A and B over 2 ranks, and tp also shards one of the two factors.
  CHECK(stored == 32 * 2 * (16 * 4096 / 2 + 16 * 4096 / 4));
  const auto memory = am::predict::estimate_memory(plan, model_of("llama-3.1-8b"), layout, 0);
  CHECK(memory.components.gradients <= 4 * stored);  // some gradients do not exist at the peak
  CHECK(memory.components.optimizer == 2 * 4 * stored);
  CHECK(am::layout::adapters_text(layout) ==
        "rank 16 for 64 modules: 8.39 M of 8.04 B parameters are trained");
  // lm_head has 128,256 x 4,096 parameters.
  CHECK(am::layout::adapters_text(layout_of(text + "modules_to_save = [\"lm_head\"]\n")) ==
        "rank 16 for 64 modules: 533.73 M of 8.04 B parameters are trained");
}

TEST_CASE("without a rank the model is what it was") {
  const Layout plain = layout_of("[mesh]\nworld_size = 2\n");
  const Layout off = layout_of("[mesh]\nworld_size = 2\n[lora]\nrank = 0\nalpha = 3\n");
  REQUIRE(off.parameters.size() == plain.parameters.size());
  CHECK(off.parameters.front().trainable);
  CHECK(am::layout::adapters_text(off).empty());
}

}  // namespace
