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

using Violations = std::vector<Violation>;

// What a condition reads. Those on the model are not asked where its config could not be read.
enum class Reads { kPlan, kModel };

struct DialectRule {
  Rule rule;  // its summary is the framework's own condition, which every message repeats
  void (*check)(const DialectLayout& layout, Violations& found) = nullptr;
  Reads reads = Reads::kPlan;
  Severity severity = Severity::kError;
};
constexpr DialectRule dialect_rule(std::string_view id, std::string_view summary,
                                   std::string_view explain,
                                   void (*check)(const DialectLayout& layout, Violations& found),
                                   Reads reads = Reads::kPlan,
                                   Severity severity = Severity::kError) {
  const Rule rule = {.id = id, .summary = summary, .explain = explain, .check = nullptr};
  return {rule, check, reads, severity};
}

struct Dialect {
  std::string_view name;     // as --dialect takes it
  std::string_view version;  // whose conditions these are
  std::span<const DialectRule> rules;
};

std::span<const Dialect> dialects();
const Dialect* find_dialect(std::string_view name);
std::vector<std::string> dialect_names();

// Adds what the framework would refuse. Sizes below 1, and an unknown number of ranks, are
// reported by the rules "mesh.size" and "mesh.world".
void judge(const Dialect& dialect, const config::Plan& plan, const model::ModelConfig* model,
           int64_t world_size, Diagnostics& found);

// As check_file, with the dialect's conditions in the place of the rules; `checked` has the model.
CheckedFile check_file_as(const Dialect& dialect, const std::filesystem::path& file,
                          const std::vector<config::Override>& overrides, int64_t world_size,
                          Diagnostics& found);

// What several of them ask. That tp divides `heads`, which the framework calls `name`:
void demand_whole_heads(const DialectLayout& layout, const char* name, int64_t heads,
                        Violations& found);
// that ep divides the experts, that a pipeline's head is not tied, that PyTorch has its schedule,
void check_even_experts(const DialectLayout& layout, Violations& found);
void check_tied(const DialectLayout& layout, Violations& found);
void check_torch_schedule(const DialectLayout& layout, Violations& found);
// and that the global batch is a multiple of what all ranks take at a time.
void demand_whole_batches(const DialectLayout& layout, int64_t of_all_ranks, Violations& found);
// "ep_size = 2 or 4"
std::string nearest_divisors(const char* key, int64_t of, int64_t wanted);

// The tables.
std::span<const DialectRule> torchtitan_rules();
std::span<const DialectRule> megatron_rules();
std::span<const DialectRule> nemo_automodel_rules();

}  // namespace am::planner
