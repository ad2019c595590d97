// Any text as a plan: read, judged by every rule, sized up and timed where it passes.
#include "am/config/plan.h"

#include "am/planner/cost/prediction.h"
#include "am/planner/memory.h"
#include "am/planner/rules.h"
#include "small_model.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const am::model::ModelConfig& model = am::fuzz::small_model();
  am::Diagnostics found;
  const auto plan =
      am::config::parse_draft(am::fuzz::text_of(data, size), "/nonexistent/plan.toml", {}, found);
  if (!plan) return 0;
  am::Diagnostics ruled;
  const auto checked = am::planner::check_model(*plan, model, ruled);
  if (!found.ok() || !ruled.ok() || !checked.layout) return 0;
  am::planner::estimate_memory(*plan, model, *checked.layout, 0);
  am::planner::predict(*plan, model, *checked.layout, 0, ruled);
  return 0;
}
