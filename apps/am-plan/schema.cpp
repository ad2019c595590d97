// am-plan schema: prints the keys of a plan file, as JSON Schema for editors or as Markdown.
#include "am/config/schema.h"

#include <memory>

#include "commands.h"
#include "options.h"

namespace am_plan {
namespace {

int run_schema(bool markdown) {
  if (markdown) {
    am_apps::print(am::config::plan_reference());
  } else {
    am_apps::print(am::config::schema_json());
  }
  return am_apps::kFine;
}

Run declare_schema(CLI::App& command, SharedOptions& shared) {
  auto markdown = std::make_shared<bool>(false);
  add_flag(command, "--markdown", "As Markdown tables, for people", *markdown);
  add_json(command, shared, "The JSON Schema (the default)");
  return [markdown](const Output&) { return run_schema(*markdown); };
}

}  // namespace

const Command kSchemaCommand = {
    .name = "schema",
    .summary = "Print a JSON Schema of the plan file, for editors",
    .example = "am-plan schema > plan.schema.json",
    .declare = declare_schema,
};

}  // namespace am_plan
