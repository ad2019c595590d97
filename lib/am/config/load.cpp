// Implements load_plan, parse_plan, load_draft and parse_draft. These functions parse the TOML
// text, apply the overrides of --set, and set the members of the Plan according to the field table.
#include <filesystem>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/blend.h"
#include "am/config/field.h"
#include "am/config/model_names.h"
#include "am/config/overrides.h"
#include "am/config/plan.h"
#include "am/config/schedule_names.h"

namespace am::config {
namespace {

class Loader {
 public:
  Loader(Plan& plan, Diagnostics& found) : plan_(plan), found_(found) {}

  void load(const Value& root) {
    choose_strategy(root);
    for (const Member& member : root.members) {
      if (!is_section(member.key)) {
        unknown_section(member);
      } else if (!member.value.is_table()) {
        found_.error("plan.type", member.value.span,
                     cat("[", member.key, "] is a section, not ", kind_name(member.value.kind)),
                     cat("write [", member.key,
                         "] on a line of its own, and its keys on the lines below it"));
      } else {
        plan_.spans[member.key] = member.key_span;
        for (const Member& key : member.value.members) read_key(member.key, key);
      }
    }
    check_required();
  }

 private:
  static bool is_section(std::string_view name) {
    for (const SectionSpec& section : sections()) {
      if (section.name == name) return true;
    }
    return false;
  }

  // Reads strategy.name before all other keys, because the strategy determines which keys
  // [strategy] has.
  void choose_strategy(const Value& root) {
    const Member* section = root.find("strategy");
    const Member* name = section != nullptr ? section->value.find("name") : nullptr;
    if (name != nullptr) {
      const int errors = found_.errors();
      find_field("strategy", "name", "")->set({name->value, "strategy.name", found_}, plan_);
      strategy_is_known_ = found_.errors() == errors;
    }
    strategy_ = strategy_name(plan_.strategy);
  }

  void read_key(const std::string& section, const Member& member) {
    const FieldSpec* field = find_field(section, member.key, strategy_);
    if (field == nullptr) {
      unknown_key(section, member);
      return;
    }
    remember(field->name(), member.value);
    if (section == "strategy" && (!strategy_is_known_ || member.key == "name")) return;
    field->set({member.value, field->name(), found_}, plan_);
  }

  void remember(const std::string& name, const Value& value) {
    plan_.spans[name] = value.span;
    for (const Member& member : value.members) remember(name + "." + member.key, member.value);
    for (size_t i = 0; i < value.items.size(); ++i) remember(cat(name, ".", i), value.items[i]);
  }

  void unknown_section(const Member& member) {
    const std::string& name = member.key;
    if (!member.value.is_table()) {
      const std::string homes = sections_with(name);
      found_.error(
          "plan.key", member.key_span, cat("\"", name, "\" is outside of any section"),
          homes.empty() ? "every key belongs in a section" : cat("it is a key of ", homes));
      return;
    }
    std::vector<std::string> names;
    for (const SectionSpec& section : sections()) names.emplace_back(section.name);
    const auto near = nearest(name, names);
    found_.error("plan.section", member.key_span, cat("unknown section [", name, "]"),
                 near ? cat("did you mean [", *near, "]?") : cat("sections: ", join(names, ", ")));
  }

  void unknown_key(const std::string& section, const Member& member) {
    const std::string& key = member.key;
    const auto owners = section == "strategy" ? owners_of(key) : std::vector<std::string>();
    // After an error about an unknown strategy.name, reports no key that any strategy has, because
    // the strategy that the user means may have this key.
    if (!owners.empty() && !strategy_is_known_) return;
    if (!owners.empty()) {
      found_.error("plan.key", member.key_span,
                   cat("\"", key, "\" is a key of strategy ", join(owners, " and "),
                       "; the strategy of this plan is ", strategy_),
                   cat("remove it, or set strategy.name = \"", owners.front(), "\""));
      return;
    }
    found_.error("plan.key", member.key_span, cat("unknown key \"", key, "\" in [", section, "]"),
                 suggestion(section, key));
  }

  std::string suggestion(const std::string& section, const std::string& key) const {
    const std::vector<std::string> keys = section_keys(section, strategy_);
    if (const std::string homes = sections_with(key); !homes.empty()) {
      return cat("it is a key of ", homes);
    }
    for (const FieldSpec& field : fields()) {
      for (const std::string& name : field.also) {
        if (name == key) return cat("it is called ", field.key, " here, in [", field.section, "]");
      }
    }
    if (const auto near = nearest(key, keys)) return cat("did you mean \"", *near, "\"?");
    for (const SectionSpec& other : sections()) {
      const auto near = nearest(key, section_keys(other.name, strategy_));
      if (near) return cat("did you mean \"", *near, "\" of [", other.name, "]?");
    }
    return cat("keys of [", section, "]: ", join(keys, ", "));
  }

  // Returns the sections that have a key of exactly this name in any strategy, for example
  // "[model], [train]".
  static std::string sections_with(std::string_view key) {
    std::vector<std::string> names;
    for (const FieldSpec& field : fields()) {
      std::string name = cat("[", field.section, "]");
      if (field.key == key && (names.empty() || names.back() != name)) names.push_back(name);
    }
    return join(names, ", ");
  }

  static std::vector<std::string> owners_of(std::string_view key) {
    std::vector<std::string> owners;
    for (const FieldSpec& field : fields()) {
      if (field.key == key && !field.strategy.empty()) owners.push_back(field.strategy);
    }
    return owners;
  }

  void check_required() {
    for (const FieldSpec& field : fields()) {
      if (!field.required || plan_.given(field.name())) continue;
      found_.error("plan.required", plan_.span(field.name()), cat(field.name(), " is missing"),
                   field.help);
    }
  }

  Plan& plan_;
  Diagnostics& found_;
  std::string strategy_;
  bool strategy_is_known_ = true;
};

// ---- checks of several keys ---------------------------------------------------------------------

void check_data(const Plan& plan, Diagnostics& found) {
  if (plan.data.is_synthetic() || !plan.data.path.empty() || !plan.data.sources.empty()) return;
  found.error("plan.required", plan.span("data.kind"),
              cat("data.kind = \"", plan.data.kind, "\" needs data.path"),
              "name a file, a folder or a glob, relative to the plan; or set kind = \"synthetic\"");
}

// Reads the CSV file if pipeline.schedule names one. If the file cannot be read, pipeline.csv stays
// null, and the rule "pp.schedule_file" reports the error.
void read_schedule(Plan& plan) {
  if (!is_schedule_file(plan.pipeline.schedule)) return;
  try {
    plan.pipeline.csv =
        std::make_shared<const std::string>(read_file(plan.resolve(plan.pipeline.schedule)));
  } catch (const Error&) {
    plan.pipeline.csv = nullptr;
  }
}

// If model.path is not an existing path but the name of a model (model_names.h), replaces the name
// by the path of the model's folder.
void settle_model(Plan& plan) {
  std::error_code ignored;
  const std::string& path = plan.model.path;
  if (path.empty() || std::filesystem::exists(plan.resolve(path), ignored)) return;
  if (const auto found = find_model(path)) {
    plan.model.named = path;
    plan.model.path = found->string();
  }
}

void settle_async_tensor_parallel(Plan& plan, Diagnostics& found) {
  auto* fsdp2 = std::get_if<FSDP2Config>(&plan.strategy);
  if (fsdp2 == nullptr || !fsdp2->enable_async_tensor_parallel || fsdp2->sequence_parallel) return;
  fsdp2->sequence_parallel = true;
  found.warning("strategy.async_tp", plan.span("strategy.enable_async_tensor_parallel"),
                "enable_async_tensor_parallel turns on sequence_parallel, which it needs",
                "write sequence_parallel = true");
}

void settle_implementation(Plan& plan) {
  if (plan.given("cluster.implementation")) return;
  plan.cluster.implementation = default_implementation(plan.strategy);
}

// Sets the mode of activation checkpointing that other keys of the strategy megatron imply.
void settle_recomputation(Plan& plan) {
  auto* megatron = std::get_if<MegatronConfig>(&plan.strategy);
  if (megatron == nullptr) return;
  if (plan.given("strategy.activation_checkpointing")) return;
  if (!megatron->recompute_modules.empty()) {
    megatron->activation_checkpointing = ActivationCheckpointing::kSelective;
  } else if (megatron->recompute_num_layers > 0) {
    megatron->activation_checkpointing = ActivationCheckpointing::kFull;
  }
}

}  // namespace

std::optional<Plan> parse_draft(std::string_view text, const std::string& file,
                                const std::vector<Override>& overrides, Diagnostics& found) {
  Diagnostics own;
  Plan plan;
  plan.file = file;
  auto root = read_toml(text, file, own);
  const bool readable = root.has_value();
  if (!readable) root.emplace();  // an empty document, so that mistakes in --set are reported too
  apply_overrides(overrides, *root, own);
  if (readable) {
    Loader(plan, own).load(*root);
    // check_data() is skipped after errors, because data.path itself may be the key with an error.
    if (own.ok()) check_data(plan, own);
    settle_blend(plan, own);
    settle_model(plan);
    settle_async_tensor_parallel(plan, own);
    settle_implementation(plan);
    settle_recomputation(plan);
    read_schedule(plan);
  }
  own.sort();
  found.append(own);
  return readable ? std::optional(std::move(plan)) : std::nullopt;
}

std::optional<Plan> parse_plan(std::string_view text, const std::string& file,
                               const std::vector<Override>& overrides, Diagnostics& found) {
  const int before = found.errors();
  auto plan = parse_draft(text, file, overrides, found);
  return found.errors() == before ? std::move(plan) : std::nullopt;
}

std::optional<Plan> load_plan(const std::filesystem::path& file,
                              const std::vector<Override>& overrides, Diagnostics& found) {
  const int before = found.errors();
  auto plan = load_draft(file, overrides, found);
  return found.errors() == before ? std::move(plan) : std::nullopt;
}

std::optional<Plan> load_draft(const std::filesystem::path& file,
                               const std::vector<Override>& overrides, Diagnostics& found) {
  constexpr uintmax_t kLargest = 16 << 20;
  std::error_code unknown;
  const uintmax_t size = std::filesystem::file_size(file, unknown);
  if (!unknown && size > kLargest) {
    found.error("plan.syntax", Span{file.string(), 0, 0, 1, {}},
                cat("the file has ", format_bytes(static_cast<int64_t>(size))),
                "a plan is a small TOML file; check the path");
    return std::nullopt;
  }
  return parse_draft(read_file(file), file.string(), overrides, found);
}

}  // namespace am::config
