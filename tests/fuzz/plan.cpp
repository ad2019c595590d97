// Any text as a plan: read, judged by every rule, sized up and timed where it passes.
#include "am/config/plan.h"

#include <optional>

#include "am/planner/cost/prediction.h"
#include "am/planner/memory.h"
#include "am/planner/rules.h"
#include "target.h"

namespace {

const am::model::ModelConfig& model() {
  static const auto config = [] {
    am::Diagnostics found;
    return am::model::parse_config(
        R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
            "max_position_embeddings": 4096})",
        "config.json", found);
  }();
  return *config;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  am::Diagnostics found;
  const auto plan =
      am::config::parse_draft(am::fuzz::text_of(data, size), "/nonexistent/plan.toml", {}, found);
  if (!plan) return 0;
  am::Diagnostics ruled;
  const auto checked = am::planner::check_model(*plan, model(), ruled);
  if (!found.ok() || !ruled.ok() || !checked.layout) return 0;
  am::planner::estimate_memory(*plan, model(), *checked.layout, 0);
  am::planner::predict(*plan, model(), *checked.mesh, 0, ruled);
  return 0;
}
