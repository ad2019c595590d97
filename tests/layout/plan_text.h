// Makes plans and layouts from a few lines of text, for the planner's tests.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "am/base/text.h"
#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "support/published_model.h"

namespace am::test {

inline config::Plan plan_of(const std::string& text, const std::string& model = "llama-3.1-8b") {
  const std::string head = cat("[model]\npath = \"", model_folder(model), "\"\n");
  Diagnostics found;
  const auto plan = config::parse_plan(head + text, "plan.toml", {}, found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(plan.has_value());
  return *plan;
}

inline layout::Layout layout_of(const config::Plan& plan, const model::ModelConfig& model) {
  Diagnostics found;
  const auto sizes = layout::resolve_mesh(plan, 0, found);
  REQUIRE(sizes.has_value());
  auto layout = layout::build_layout(plan, model, *sizes, found);
  REQUIRE(layout.has_value());
  return *std::move(layout);
}

inline layout::Layout layout_of(const std::string& text,
                                const std::string& model = "llama-3.1-8b") {
  return layout_of(plan_of(text, model), model_of(model));
}

// Returns the text with "|" replaced by newlines, and with a newline at its end.
inline std::string toml(std::string text) {
  std::replace(text.begin(), text.end(), '|', '\n');
  return text + "\n";
}

inline std::vector<std::string> ids(const Diagnostics& found) {
  std::vector<std::string> ids;
  for (const auto& item : found.items()) ids.push_back(item.rule);
  return ids;
}

}  // namespace am::test
