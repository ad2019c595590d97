// The field table: every key of the plan file, once.
//
// Reading, `--set`, suggestions for unknown keys, ranges, `to_toml`, `to_json`, the JSON Schema and
// the reference text are generated from this table, so a new key is one line in a fields_*.cpp.
// Defaults are those of the structs in plan.h; the table reads them from a default plan.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/config/codec.h"
#include "am/config/plan.h"

namespace am::config {

struct FieldSpec {
  std::string section;
  std::string key;
  std::string strategy;  // for [strategy] keys: the strategy that has it; empty: all have it
  std::string type;      // for people: "integer >= 1"
  std::string help;      // one or two sentences
  Json schema;           // legal values, without description and default
  bool required = false;
  std::vector<std::string> also;  // names in other tools, used for suggestions only

  // Reads a written value into the plan, or adds a diagnostic.
  std::function<void(const Input&, Plan&)> set;
  // Returns the value as in a plan file; null if the key is absent.
  std::function<Json(const Plan&)> get;
  // Whether a text in this key is a path, relative to the plan file; null: never.
  bool (*is_path)(std::string_view text) = nullptr;

  std::string name() const { return section + "." + key; }
};

struct SectionSpec {
  std::string_view name;
  std::string_view help;
};

// All sections, in the order of a written plan.
std::span<const SectionSpec> sections();
// All keys, in the order of a written plan; [strategy] keys once per strategy that has them.
std::span<const FieldSpec> fields();

// "fsdp2", "megatron_fsdp", "ddp"
const std::vector<std::string>& strategy_names();
// Returns the named configuration with its defaults.
DistributedConfig default_strategy(std::string_view name);

// Returns the field of a section's key; null if there is none. Keys of [strategy] are those that
// `strategy` has.
const FieldSpec* find_field(std::string_view section, std::string_view key,
                            std::string_view strategy);
// Returns the keys of a section for this strategy.
std::vector<std::string> section_keys(std::string_view section, std::string_view strategy);
// Returns a plan with defaults only, for this strategy.
Plan default_plan(std::string_view strategy);

}  // namespace am::config
