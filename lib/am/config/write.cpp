// Implements write.h, and to_toml() and to_json() of plan.h, from the field table (field.h).
#include "am/config/write.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/config/plan.h"
#include "am/config/schema.h"
#include "am/term/printable.h"
#include "am/term/wrap.h"

namespace am::config {

std::string toml_text(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
  // In UTF-8 text, also escapes C1 characters and bidirectional controls.
  return is_utf8(out) ? term::printable_json(out) : out;
}

std::string toml_key(const std::string& key) {
  constexpr std::string_view kBare =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  const bool bare = !key.empty() && key.find_first_not_of(kBare) == std::string::npos;
  return bare ? key : toml_text(key);
}

namespace {

// Returns the shortest decimal text that TOML reads as this floating-point number. The text
// contains a point or an exponent, because TOML would otherwise read an integer.
std::string toml_number(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string toml_value(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:  // occurs only in mp_policy: a dtype that is not set
      return "\"none\"";
    case Json::value_t::string:
      return toml_text(value.get_ref<const std::string&>());
    case Json::value_t::number_float:
      return toml_number(value.get<double>());
    case Json::value_t::array: {
      std::vector<std::string> items;
      for (const Json& item : value) items.push_back(toml_value(item));
      return cat("[", join(items, ", "), "]");
    }
    case Json::value_t::object: {
      std::vector<std::string> members;
      for (const auto& [key, member] : value.items()) {
        members.push_back(cat(toml_key(key), " = ", toml_value(member)));
      }
      return cat("{ ", join(members, ", "), " }");
    }
    default:
      return dump_json(value, -1);  // integers and booleans
  }
}

namespace {

// Rewrites the paths in `value`, the value of a key, for a plan that is saved as `file`. A relative
// path becomes relative to the folder of `file`. If `file` is empty, all paths become absolute.
void move_paths(const Plan& plan, const FieldSpec& field, const std::filesystem::path& file,
                Json& value) {
  if (field.is_path == nullptr) return;
  if (value.is_array()) {
    for (Json& item : value) {
      const bool table = item.is_object() && item.contains("path");  // an entry of [[data.source]]
      move_paths(plan, field, file, table ? item["path"] : item);
    }
  } else if (value.is_string() && field.is_path(value.get_ref<const std::string&>())) {
    const std::filesystem::path written = value.get<std::string>();
    const auto whole = std::filesystem::absolute(plan.resolve(written.string()));
    const bool stays_relative = !file.empty() && written.is_relative();
    value = stays_relative ? whole.lexically_normal()
                                 .lexically_relative(std::filesystem::absolute(file).parent_path())
                                 .string()
                           : whole.string();
  }
}

bool is_written(const FieldSpec& field, const Plan& plan) {
  return field.strategy.empty() || field.strategy == strategy_name(plan.strategy);
}

struct Form {
  bool as_written = false;  // whether paths stay as in the plan
  std::filesystem::path file =
      {};  // file in which the text will be saved; empty: paths become absolute
  // Whether keys without a value are mentioned in comments, because TOML has no null.
  bool names_absent = false;
  bool explained = false;  // whether a comment with its help precedes each key and section
};

// Returns the text as comment lines of at most 100 columns.
std::string comment(std::string_view text) {
  std::string out;
  for (const std::string& line : term::wrap(text, 98)) out += cat("# ", line, "\n");
  return out;
}

std::string_view help_of_section(std::string_view name) {
  for (const SectionSpec& section : sections()) {
    if (section.name == name) return section.help;
  }
  return {};
}

// Returns the plan as TOML, by section, with only the keys for which `wanted(field, value)` returns
// true. Omits the keys of strategies that the plan does not use.
std::string written(const Plan& plan, const Form& form,
                    const std::function<bool(const FieldSpec&, const Json&)>& wanted) {
  std::string out;
  std::string_view section;
  for (const FieldSpec& field : fields()) {
    if (!is_written(field, plan)) continue;
    Json value = field.get(plan);
    if (!wanted(field, value) || (value.is_null() && !form.names_absent)) continue;
    if (field.section != section) {
      section = field.section;
      out += cat(out.empty() ? "" : "\n", form.explained ? comment(help_of_section(section)) : "",
                 "[", section, "]\n");
    }
    if (form.explained) out += comment(field.help);
    const bool is_name = field.name() == "model.path" && !plan.model.named.empty();
    if (is_name && !form.file.empty()) {
      value = plan.model.named;
    } else if (!form.as_written) {
      move_paths(plan, field, form.file, value);
    }
    out += value.is_null() ? cat("# ", field.key, " is absent\n")
                           : cat(field.key, " = ", toml_value(value), "\n");
  }
  return out;
}

}  // namespace

std::string to_toml(const Plan& plan) {
  return written(plan, {.names_absent = true}, [&](const FieldSpec& field, const Json&) {
    // Omits a default of train.max_steps that does not limit this job. In the written plan,
    // max_steps would be set explicitly and would limit the job.
    return field.name() != "train.max_steps" || plan.max_steps_apply();
  });
}

namespace {

// Returns the comment `#:schema`, by which editors find the JSON Schema of plans. Returns an empty
// text if the folder of `file` does not contain the schema.
std::string schema_line(const std::filesystem::path& file) {
  std::error_code ignored;
  const bool there =
      !file.empty() && std::filesystem::exists(file.parent_path() / kSchemaFile, ignored);
  return there ? cat("#:schema ./", kSchemaFile, "\n\n") : std::string();
}

// Returns the plan in the given form. Omits keys with default values, except strategy.name and
// required keys. With form.explained, also keeps every key that the plan sets.
std::string written_briefly(const Plan& plan, const Form& form) {
  const Plan defaults = default_plan(strategy_name(plan.strategy));
  return schema_line(form.file) +
         written(plan, form, [&](const FieldSpec& field, const Json& value) {
           return field.required || field.name() == "strategy.name" ||
                  value != field.get(defaults) || (form.explained && plan.given(field.name()));
         });
}

}  // namespace

std::string to_short_toml(const Plan& plan, const std::filesystem::path& file) {
  return written_briefly(plan, {.file = file});
}

std::string to_explained_toml(const Plan& plan, const std::filesystem::path& file) {
  return written_briefly(plan, {.file = file, .explained = true});
}

std::string to_toml(const Plan& plan, std::span<const std::string> keys) {
  return written(plan, {.as_written = true}, [&](const FieldSpec& field, const Json&) {
    return std::find(keys.begin(), keys.end(), field.name()) != keys.end();
  });
}

Json to_json(const Plan& plan) {
  Json out = Json::object();
  for (const FieldSpec& field : fields()) {
    if (is_written(field, plan)) out[field.section][field.key] = field.get(plan);
  }
  return out;
}

}  // namespace am::config
