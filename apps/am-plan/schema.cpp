// am-plan schema: prints the keys of a plan file, as JSON Schema for editors or as Markdown.
#include "am/config/schema.h"

#include <memory>
#include <string>

#include "am/base/file.h"
#include "am/config/field.h"
#include "commands.h"
#include "common/known_names.h"
#include "options.h"

namespace am_plan {
namespace {

// Returns the JSON Schema of plans with the known values of cluster.gpu and cluster.implementation,
// which editors then offer. The implementation must be a known name. The GPU may also be a file's
// path.
am::Json schema_with_names() {
  am::Json schema = am::config::schema_json();
  for (const am::config::FieldSpec& field : am::config::fields()) {
    am::Json names = am::Json::array();
    for (const auto& known : am_apps::known_names(field.name())) names.push_back(known.name);
    if (names.empty()) continue;
    am::Json& property = schema["properties"][field.section]["properties"][field.key];
    if (field.is_path == nullptr) {
      property["enum"] = names;
    } else {
      am::Json other = {{"type", property["type"]}};
      property.erase("type");
      property["anyOf"] = am::Json::array({{{"enum", names}}, std::move(other)});
    }
  }
  return schema;
}

int run_schema(bool markdown, const std::string& file) {
  const std::string text =
      markdown ? am::config::plan_reference() : am::dump_json(schema_with_names(), 1) + "\n";
  if (file.empty()) {
    am_apps::print(text);
  } else {
    am::write_file_atomically(file, text);
  }
  return am_apps::kFine;
}

Run declare_schema(CLI::App& command, SharedOptions& shared) {
  auto markdown = std::make_shared<bool>(false);
  auto file = std::make_shared<std::string>();
  add_flag(command, "--markdown", "As Markdown tables, for people", *markdown);
  add_output(command, shared, "Write it to this file", *file);
  add_json(command, shared, "The JSON Schema (the default)");
  return [markdown, file](const Output&) { return run_schema(*markdown, *file); };
}

}  // namespace

const Command kSchemaCommand = {
    .name = "schema",
    .summary = "Print a JSON Schema of the plan file, for editors",
    .example = "am-plan schema -o plan.schema.json",
    .declare = declare_schema,
};

}  // namespace am_plan
