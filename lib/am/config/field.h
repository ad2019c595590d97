// The field table: every key of the plan file, once.
//
// Reading, `--set`, unknown-key suggestions, ranges, `to_toml`, `to_json`, the JSON Schema and the
// reference text all walk this table, so a new key is one line in a fields_*.cpp. Defaults are
// those of the structs in plan.h; the table asks a default plan for them.
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
  std::string strategy;  // of [strategy] keys: whose it is; empty: all strategies'
  std::string type;      // for people: "integer >= 1"
  std::string help;      // one or two sentences
  Json schema;           // what is legal, without description and default
  bool required = false;
  std::vector<std::string> also;  // what other tools call it; for suggestions only

  // Reads a written value into the plan, or says what is wrong with it.
  std::function<void(const Input&, Plan&)> set;
  // The value as a plan file would hold it; null when the key is absent.
  std::function<Json(const Plan&)> get;
  // Whether a text of this key is a path, relative to the plan file; null: never.
  bool (*is_path)(std::string_view text) = nullptr;

  std::string name() const { return section + "." + key; }
};

struct SectionSpec {
  std::string_view name;
  std::string_view help;
};

// All sections, in the order in which a plan is written.
std::span<const SectionSpec> sections();
// All keys, in that order; those of [strategy] once for each strategy that has them.
std::span<const FieldSpec> fields();

// "fsdp2", "megatron_fsdp", "ddp"
const std::vector<std::string>& strategy_names();
// The configuration of that name with its defaults.
DistributedConfig default_strategy(std::string_view name);

// The field of a section's key; of [strategy], the one of `strategy`. Null when there is none.
const FieldSpec* find_field(std::string_view section, std::string_view key,
                            std::string_view strategy);
// The keys of a section, for this strategy.
std::vector<std::string> section_keys(std::string_view section, std::string_view strategy);
// A plan that holds defaults only, for this strategy.
Plan default_plan(std::string_view strategy);

}  // namespace am::config
