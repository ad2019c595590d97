// Input: a plan. The target checks the plan with every rule. For a valid plan, the target predicts
// the memory and the step time.
#include "am/config/plan.h"

#include "am/predict/memory/memory.h"
#include "am/predict/time/prediction.h"
#include "am/rules/check.h"
#include "small_model.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const am::model::ModelConfig& model = am::fuzz::small_model();
  am::Diagnostics found;
  const auto plan =
      am::config::parse_draft(am::fuzz::text_of(data, size), "/nonexistent/plan.toml", {}, found);
  if (!plan) return 0;
  am::Diagnostics ruled;
  const auto checked = am::rules::check_model(*plan, model, ruled);
  if (!found.ok() || !ruled.ok() || !checked.layout) return 0;
  am::predict::estimate_memory(*plan, model, *checked.layout, 0);
  am::predict::predict_step(*plan, model, *checked.layout, 0, ruled);
  return 0;
}
