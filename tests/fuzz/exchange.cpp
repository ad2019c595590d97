// Any text as another framework's configuration; the first byte says whose. What is read is a
// plan's text, and a plan that the rules pass is exported to every framework, which reads it back.
#include "am/exchange/exchange.h"

#include "am/planner/rules.h"
#include "small_model.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto all = am::exchange::frameworks();
  const am::exchange::Framework& from = all[data[0] % all.size()];  // 'A' is the first of five
  am::Diagnostics found;
  const auto in = am::exchange::import_plan(from, am::fuzz::text_of(data + 1, size - 1),
                                            "/nonexistent/file", found);
  AM_ASSERT(in.has_value() == found.ok(), "a plan, or what is wrong with the file");
  if (!in) return 0;
  am::Diagnostics ruled;
  const auto plan = am::config::parse_draft(in->toml(), "/nonexistent/plan.toml", {}, ruled);
  AM_ASSERT(plan.has_value(), "an imported plan's text is a plan");
  const auto checked = am::planner::check_model(*plan, am::fuzz::small_model(), ruled);
  if (!ruled.ok() || !checked.layout) return 0;
  for (const am::exchange::Framework& to : all) {
    const am::exchange::ExportInput input{*plan, am::fuzz::small_model(), *checked.layout};
    am::exchange::export_plan(to, input);
    if (to.has_flags) {
      am::exchange::export_plan(to, {input.plan, input.model, input.layout, true});
    }
  }
  return 0;
}
