// What tests of exports and imports share.
#pragma once

#include <set>

#include "am/exchange/exchange.h"
#include "planner/random_plan.h"

namespace am::test {

inline const exchange::Framework& framework(std::string_view name) {
  const exchange::Framework* found = exchange::find_framework(name);
  REQUIRE(found != nullptr);
  return *found;
}

inline exchange::Imported imported(const exchange::Framework& from, const std::string& text) {
  Diagnostics found;
  auto plan = exchange::import_plan(from, text, "file", found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(plan.has_value());
  return *std::move(plan);
}

inline ValidPlan valid(const std::string& text, const std::string& model = "llama-3.1-8b") {
  config::Plan plan = plan_of(text, model);
  Diagnostics found;
  auto checked = planner::check(plan, 0, found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(checked.layout.has_value());
  return {std::move(plan), *std::move(checked.model), *std::move(checked.layout)};
}

inline std::set<std::string> lost_keys(const exchange::Exported& exported) {
  std::set<std::string> keys;
  for (const exchange::Lost& item : exported.lost) keys.insert(item.key);
  return keys;
}

}  // namespace am::test
