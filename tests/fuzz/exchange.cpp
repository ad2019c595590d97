// Input: one byte that selects a framework, followed by that framework's configuration. The
// importer returns a plan or reports errors, never both. An imported plan must parse. If it also
// passes the rules, it is exported to every framework, and export_plan() reads each export back.
#include "am/frameworks/exchange.h"

#include "am/rules/check.h"
#include "small_model.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto all = am::frameworks::all_frameworks();
  const am::frameworks::Framework& from =
      all[data[0] % all.size()];  // 'A' selects the first of five
  am::Diagnostics found;
  const auto in = am::frameworks::import_plan(from, am::fuzz::text_of(data + 1, size - 1),
                                              "/nonexistent/file", found);
  AM_ASSERT(in.has_value() == found.ok(), "a plan, or what is wrong with the file");
  if (!in) return 0;
  am::Diagnostics ruled;
  const auto plan = am::config::parse_draft(in->toml(), "/nonexistent/plan.toml", {}, ruled);
  AM_ASSERT(plan.has_value(), "an imported plan's text is a plan");
  const auto checked = am::rules::check_model(*plan, am::fuzz::small_model(), ruled);
  if (!ruled.ok() || !checked.layout) return 0;
  for (const am::frameworks::Framework& to : all) {
    const am::frameworks::ExportInput input{*plan, am::fuzz::small_model(), *checked.layout};
    am::frameworks::export_plan(to, input);
    if (to.has_flags) {
      am::frameworks::export_plan(to, {input.plan, input.model, input.layout, true});
    }
  }
  return 0;
}
