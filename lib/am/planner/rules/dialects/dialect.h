// `am-plan check --dialect NAME`: a plan judged by another framework's own conditions.
//
// Each dialect is a table of what that framework checks, at start-up or in its first step, said
// over a DialectLayout. A plan passes exactly when the framework would accept the layout; what it
// only warns of, or what it accepts to its user's harm, is a warning.
//
//   const Dialect* titan = find_dialect("torchtitan");
//   check_file_as(*titan, "plan.toml", {}, 0, found);   // "torchtitan.world_size", ...
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/planner/rules.h"
#include "am/planner/rules/dialects/layout.h"

namespace am::planner {

// What a condition finds: the plan's key to point at, what is wrong, the nearest legal values.
struct Violation {
  std::string key;  // "mesh.tp_size"
  std::string message;
  std::string help;
};

struct DialectRule {
  Rule rule;  // its summary is the framework's own condition, which every message repeats
  Severity severity = Severity::kError;
  void (*check)(const DialectLayout& layout, std::vector<Violation>& found) = nullptr;
};

struct Dialect {
  std::string_view name;     // as --dialect takes it
  std::string_view version;  // whose conditions these are
  std::span<const DialectRule> rules;
};

std::span<const Dialect> dialects();
const Dialect* find_dialect(std::string_view name);
std::vector<std::string> dialect_names();

// Adds what the framework would refuse. Sizes that are none, and an unknown number of ranks, are
// reported by the rules "mesh.size" and "mesh.world".
void judge(const Dialect& dialect, const config::Plan& plan, const model::ModelConfig* model,
           int64_t world_size, Diagnostics& found);

// As check_file, with the dialect's conditions in the place of the rules; `checked` has the model.
CheckedFile check_file_as(const Dialect& dialect, const std::filesystem::path& file,
                          const std::vector<config::Override>& overrides, int64_t world_size,
                          Diagnostics& found);

// What several of them ask: that tp divides `heads`, which the framework calls `name`. Needs a
// model.
void demand_whole_heads(const DialectLayout& layout, const char* name, int64_t heads,
                        std::vector<Violation>& found);

// The tables.
std::span<const DialectRule> torchtitan_rules();
std::span<const DialectRule> megatron_rules();
std::span<const DialectRule> nemo_automodel_rules();

}  // namespace am::planner
