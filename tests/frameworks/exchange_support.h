// Helpers shared by the tests of exports and imports.
#pragma once

#include <set>

#include "am/frameworks/exchange.h"
#include "layout/random_plan.h"

namespace am::test {

inline const frameworks::Framework& framework(std::string_view name) {
  const frameworks::Framework* found = frameworks::find_framework(name);
  REQUIRE(found != nullptr);
  return *found;
}

inline frameworks::Imported imported(const frameworks::Framework& from, const std::string& text) {
  Diagnostics found;
  auto plan = frameworks::import_plan(from, text, "file", found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(plan.has_value());
  return *std::move(plan);
}

inline ValidPlan valid(const std::string& text, const std::string& model = "llama-3.1-8b") {
  config::Plan plan = plan_of(text, model);
  Diagnostics found;
  auto checked = rules::check(plan, 0, found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(checked.layout.has_value());
  return {std::move(plan), *std::move(checked.model), *std::move(checked.layout)};
}

inline std::set<std::string> lost_keys(const frameworks::Exported& exported) {
  std::set<std::string> keys;
  for (const frameworks::Lost& item : exported.lost) keys.insert(item.key);
  return keys;
}

}  // namespace am::test
