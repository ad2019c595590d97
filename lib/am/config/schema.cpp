#include "am/config/schema.h"

#include <algorithm>

#include "am/base/text.h"
#include "am/config/field.h"

namespace am::config {
namespace {

// ---- JSON Schema ---------------------------------------------------------------------------------

Json default_of(const FieldSpec& field) {
  if (field.required) return nullptr;
  return field.get(default_plan(field.strategy.empty() ? "fsdp2" : field.strategy));
}

// Returns the schema of one key of a section. If the key has different schemas in different
// strategies, the returned schema allows the values of all these schemas. If the key has different
// defaults, the returned schema contains no default.
Json property(const SectionSpec& section, const std::string& key) {
  Json schemas = Json::array();
  Json defaults = Json::array();
  std::string_view help;
  const auto add_new = [](Json& list, Json item) {
    if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(std::move(item));
  };
  for (const FieldSpec& field : fields()) {
    if (field.section != section.name || field.key != key) continue;
    add_new(schemas, field.schema);
    add_new(defaults, default_of(field));
    if (help.empty()) help = field.help;
  }
  Json out = Json::object();
  if (schemas.size() == 1) {
    out = schemas.front();
  } else {
    out["anyOf"] = std::move(schemas);
  }
  out["description"] = help;
  if (defaults.size() == 1 && !defaults.front().is_null()) out["default"] = defaults.front();
  return out;
}

Json text_array(const std::vector<std::string>& texts) { return Json(texts); }

// Returns one condition per strategy: if strategy.name is the strategy's name, only that strategy's
// keys are allowed. additionalProperties cannot depend on the value of strategy.name.
Json strategy_conditions() {
  Json conditions = Json::array();
  for (const std::string& name : strategy_names()) {
    Json condition = Json::object();
    condition["properties"]["name"]["const"] = name;
    // JSON Schema regards "properties" as satisfied if the name is missing. A section without a
    // name must satisfy only the condition of the default strategy, so all other conditions require
    // the name.
    if (name != strategy_name(Plan{}.strategy)) condition["required"] = text_array({"name"});
    Json entry = Json::object();
    entry["if"] = std::move(condition);
    entry["then"]["propertyNames"]["enum"] = text_array(section_keys("strategy", name));
    conditions.push_back(std::move(entry));
  }
  return conditions;
}

Json section_schema(const SectionSpec& section) {
  Json out = Json::object();
  out["type"] = "object";
  out["description"] = section.help;
  out["additionalProperties"] = false;
  Json properties = Json::object();
  std::vector<std::string> required;
  for (const FieldSpec& field : fields()) {
    if (field.section != section.name) continue;
    if (!properties.contains(field.key)) properties[field.key] = property(section, field.key);
    if (field.required) required.push_back(field.key);
  }
  out["properties"] = std::move(properties);
  if (!required.empty()) out["required"] = text_array(required);
  if (section.name == "strategy") out["allOf"] = strategy_conditions();
  return out;
}

// ---- Markdown ------------------------------------------------------------------------------------

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string key_table(std::string_view section, std::string_view strategy) {
  const Plan plan = default_plan(strategy.empty() ? "fsdp2" : strategy);
  std::string out = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const FieldSpec& field : fields()) {
    if (field.section != section || field.strategy != strategy) continue;
    out += cat("| `", field.key, "` | ", cell(field.type), " | ", cell(default_text(field, plan)),
               " | ", cell(field.help), " |\n");
  }
  return out + "\n";
}

}  // namespace

std::string default_text(const FieldSpec& field, const Plan& defaults) {
  if (field.required) return "required";
  const Json value = field.get(defaults);
  return value.is_null() ? "absent" : cat("`", dump_json(value, -1), "`");
}

Json schema_json() {
  Json out = Json::object();
  out["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  out["$id"] = "urn:automesh:plan:" AM_VERSION;
  out["title"] = "automesh plan";
  out["description"] = "One file describes one job: model, mesh, strategy and training.";
  out["type"] = "object";
  out["additionalProperties"] = false;
  Json properties = Json::object();
  std::vector<std::string> required;
  for (const SectionSpec& section : sections()) {
    const std::string name(section.name);
    properties[name] = section_schema(section);
    if (properties[name].contains("required")) required.push_back(name);
  }
  out["properties"] = std::move(properties);
  out["required"] = text_array(required);
  return out;
}

std::string plan_reference() {
  std::string out =
      "# The plan file\n\n"
      "One TOML file describes one job. Every key is optional unless marked required; an unknown "
      "one is an error. Paths are relative to the plan file.\n\n";
  for (const SectionSpec& section : sections()) {
    out += cat("## [", section.name, "]\n\n", section.help, "\n\n", key_table(section.name, ""));
    if (section.name != "strategy") continue;
    for (const std::string& name : strategy_names()) {
      out += cat("### name = \"", name, "\"\n\n", key_table(section.name, name));
    }
  }
  return out;
}

}  // namespace am::config
