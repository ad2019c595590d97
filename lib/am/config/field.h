// The field table, which contains every key of the plan file. A key of [strategy] has one entry for
// each strategy that has the key.
//
// Reading, `--set`, suggestions for unknown keys, ranges, `to_toml`, `to_json`, the JSON Schema and
// the reference text are generated from this table. A new key therefore requires only a member in
// plan.h or strategy_config.h, and an entry in a fields_*.cpp. Defaults are read from a
// default-constructed Plan.
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
  // Name of the strategy to which a key of [strategy] belongs; empty if all strategies have the
  // key.
  std::string strategy;
  std::string type;  // description of the legal values for people, for example "integer >= 1"
  std::string help;  // description of the key, one or two sentences
  Json schema;       // JSON Schema of the legal values, without description and default
  bool required = false;
  std::vector<std::string> also;  // the key's names in other tools, used for suggestions only

  // Stores the user's input in the plan. Adds an error instead if the input is not a legal value.
  std::function<void(const Input&, Plan&)> set;
  // Returns the key's value as it is written in a plan file; null if the key is absent.
  std::function<Json(const Plan&)> get;
  // Returns whether `text`, a value of this key, is a path relative to the plan file. Null if the
  // key's value is never a path.
  bool (*is_path)(std::string_view text) = nullptr;

  std::string name() const { return section + "." + key; }
};

struct SectionSpec {
  std::string_view name;
  std::string_view help;
};

// Returns all sections, in the order of plan_reference() (schema.h).
std::span<const SectionSpec> sections();
// Returns all keys, in the order of a written plan. A key of [strategy] appears once for each
// strategy that has the key.
std::span<const FieldSpec> fields();

// Returns "fsdp2", "megatron_fsdp", "ddp" and "megatron".
const std::vector<std::string>& strategy_names();
// Returns the configuration of the named strategy, with its defaults.
DistributedConfig default_strategy(std::string_view name);

// Returns the field of a section's key; null if the section has no such key. In [strategy], finds
// only the keys that `strategy` has.
const FieldSpec* find_field(std::string_view section, std::string_view key,
                            std::string_view strategy);
// Returns the names of a section's keys. For [strategy], returns only the keys of this strategy.
std::vector<std::string> section_keys(std::string_view section, std::string_view strategy);
// Returns a plan with defaults only, for this strategy.
Plan default_plan(std::string_view strategy);
// Returns whether the plan sets `key`, for example "lora.alpha", to a value other than its default.
bool is_chosen(const Plan& plan, std::string_view key);

}  // namespace am::config
