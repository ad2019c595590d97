// `am-plan check --dialect NAME`: checks a plan by another framework's own conditions.
//
// Each framework has a table of the conditions that the framework checks at start-up or in its
// first step. In automesh, a condition is a function of a FrameworkLayout. A violation is an error
// if the framework would reject the layout. A violation is a warning if the framework itself only
// warns, or if the framework silently accepts a layout that harms the job.
//
//   const FrameworkRules* titan = find_framework_rules("torchtitan");
//   check_file_as(*titan, "plan.toml", {}, 0, found);   // "torchtitan.world_size", ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/pipeline/shape.h"
#include "am/rules/check.h"

namespace am::frameworks {

// Sizes and options of a plan: the input of the frameworks' conditions.
struct FrameworkLayout {
  const config::MegatronFSDPConfig* megatron_fsdp = nullptr;  // null for other strategies
  const config::MegatronConfig* megatron = nullptr;           // null for other strategies
  bool ddp = false;
  int64_t world = 0;    // number of ranks; 0: unknown
  int64_t dp_size = 0;  // the plan's dp_size; 0: derived from the world size
  int64_t dp_replicate = 1;
  int64_t tp = 1;
  int64_t cp = 1;
  int64_t pp = 1;
  int64_t ep = 1;
  int64_t etp = 1;  // tensor-parallel ranks of each expert: tp, or the plan's etp_size
  bool sequence_parallel = false;

  const model::ModelConfig* model = nullptr;  // null if config.json could not be read
  int64_t seq_len = 0;
  int64_t micro_batch = 1;           // sequences per forward pass of a rank
  int64_t global_batch = 0;          // sequences per step; 0: the framework's minimum
  pipeline::PipelineShape pipeline;  // as layout::pipeline_shape() returns it
  bool split_points = false;         // true: split points or balance = "cost" set the stages

  bool fsdp2() const { return !ddp && megatron_fsdp == nullptr && megatron == nullptr; }
  // Returns the number of ranks per data-parallel replica: tp * cp * pp.
  int64_t replica() const { return tp * cp * pp; }
  // Returns dp_size if it is set, and otherwise world / replica(), or 0 if this quotient is unknown
  // or not an integer.
  int64_t dp() const;
  int64_t experts() const { return model != nullptr && model->moe ? model->moe->experts : 0; }
  // Returns the local batch of torchtitan and NeMo AutoModel: the number of sequences in one
  // micro-batch or, with a pipeline, in all micro-batches of one run of the schedule.
  int64_t local_batch() const { return micro_batch * (pp > 1 ? pipeline.microbatches : 1); }
  int64_t stages() const { return pp * pipeline.virtual_stages; }
};

// A violated condition.
struct Violation {
  std::string key;      // key of the plan to change, for example "mesh.tp_size"
  std::string message;  // the key's value, and why it is illegal
  std::string help;     // the nearest legal values of the key
};

using Violations = std::vector<Violation>;

// Inputs of a condition. With kModel, the condition depends on the model and is skipped if the
// model's config.json could not be read.
enum class Reads { kPlan, kModel };

struct FrameworkRule {
  // Id and texts of the condition. Rule::summary states the condition, and is appended to messages.
  rules::Rule rule;
  void (*check)(const FrameworkLayout& layout, Violations& found) = nullptr;
  Reads reads = Reads::kPlan;
  Severity severity = Severity::kError;
};
constexpr FrameworkRule framework_rule(
    std::string_view id, std::string_view summary, std::string_view explain,
    void (*check)(const FrameworkLayout& layout, Violations& found), Reads reads = Reads::kPlan,
    Severity severity = Severity::kError) {
  const rules::Rule rule = {.id = id, .summary = summary, .explain = explain, .check = nullptr};
  return {rule, check, reads, severity};
}

struct FrameworkRules {
  std::string_view name;     // value of the option --dialect, for example "torchtitan"
  std::string_view version;  // framework, with the version that has these conditions
  std::span<const FrameworkRule> rules;
};

std::span<const FrameworkRules> all_framework_rules();
// Returns the conditions of the framework with this FrameworkRules::name; null if there is none.
const FrameworkRules* find_framework_rules(std::string_view name);
std::vector<std::string> rule_framework_names();

// Checks the framework's conditions and adds a diagnostic for each violation. Also adds errors of
// automesh's rules "mesh.size" and "mesh.world", for example if a size is below 1 or the number of
// ranks is unknown. `model`: null if unknown. `world_size`: number of ranks that the launcher
// starts; 0: unknown.
void judge(const FrameworkRules& framework, const config::Plan& plan,
           const model::ModelConfig* model, int64_t world_size, Diagnostics& found);

// Works like rules::check_file(), but checks the framework's conditions instead of automesh's
// rules. In the result, `checked` has a model but neither mesh nor layout.
rules::CheckedFile check_file_as(const FrameworkRules& framework, const std::filesystem::path& file,
                                 const std::vector<config::Override>& overrides, int64_t world_size,
                                 Diagnostics& found);

// Returns automesh's rules, followed by the conditions of all frameworks.
std::vector<const rules::Rule*> every_rule();
// Returns the rule or condition with this id; null if there is none.
const rules::Rule* find_any_rule(std::string_view id);

// Conditions that several frameworks have. Each function adds a violation if its condition is
// violated.
//
// Condition: tp divides `heads`, a number of attention heads that the framework calls `name`.
void demand_whole_heads(const FrameworkLayout& layout, const char* name, int64_t heads,
                        Violations& found);
// Condition: ep divides the number of experts.
void check_even_experts(const FrameworkLayout& layout, Violations& found);
// Condition: with a pipeline, the head is not tied to the embedding.
void check_tied(const FrameworkLayout& layout, Violations& found);
// Condition: the strategy is not megatron, which only Megatron has.
void check_not_megatron(const FrameworkLayout& layout, Violations& found);
// Condition: PyTorch's pipeline schedule accepts the numbers of stages and micro-batches.
void check_torch_schedule(const FrameworkLayout& layout, Violations& found);
// Condition: the global batch is a multiple of `of_all_ranks`, which is the local batch times the
// number of data-parallel ranks, or 0 to skip this check.
void demand_whole_batches(const FrameworkLayout& layout, int64_t of_all_ranks, Violations& found);
// Returns a hint with the divisors of `of` that are nearest to `wanted`, as values of the plan key
// `key`, for example "ep_size = 2 or 4".
std::string nearest_divisors(const char* key, int64_t of, int64_t wanted);

// Return the frameworks' tables of conditions.
std::span<const FrameworkRule> torchtitan_rules();
std::span<const FrameworkRule> megatron_rules();
std::span<const FrameworkRule> nemo_automodel_rules();

}  // namespace am::frameworks
