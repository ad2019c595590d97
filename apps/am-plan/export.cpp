// am-plan export PLAN --to FRAMEWORK: writes the plan's layout as another framework's
// configuration.
#include <iostream>
#include <memory>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/frameworks/exchange.h"
#include "am/term/table.h"
#include "commands.h"
#include "frameworks.h"
#include "plan_input.h"

namespace am_plan {
namespace {

using am::frameworks::Exported;
using am::frameworks::Framework;
using am::frameworks::Lost;

struct ExportOptions {
  std::string framework;
  std::string output;  // file to write; empty: stdout
  bool flags = false;  // write command-line flags instead of a configuration file
};

std::string shortened(const std::string& value) {
  constexpr size_t kLongest = 40;
  return value.size() <= kLongest ? value : value.substr(0, kLongest - 3) + "...";
}

std::string lost_table(const Exported& exported, const am::term::Style& style) {
  am::term::Table table({{"not exported", am::term::Align::kWrap},
                         {"value", am::term::Align::kWrap},
                         {"why", am::term::Align::kWrap}});
  for (const Lost& item : exported.lost) table.add({item.key, shortened(item.value), item.why});
  return table.text(style);
}

am::Json to_json(const Exported& exported, const Framework& framework) {
  am::Json json = am::Json::object();
  json["framework"] = framework.name;
  json["text"] = exported.text;
  json["lost"] = am_plan::to_json(exported.lost);
  json["notes"] = exported.notes;
  return json;
}

int run_export(const PlanOptions& plan, const ExportOptions& options, const Output& output) {
  const Framework& framework = framework_of(options.framework);
  if (options.flags && !framework.has_flags) {
    throw am::Error(am::ErrorKind::kUsage, am::cat("--flags: ", framework.name,
                                                   " has only one format, ", framework.format));
  }
  int status = am_apps::kFine;
  const auto input = load_input(plan, output, status);
  if (!input.has_value()) return status;
  const Exported exported = am::frameworks::export_plan(
      framework, {input->plan, input->model, input->layout, options.flags});
  if (!options.output.empty()) am::write_file_atomically(options.output, exported.text);
  if (output.json) {
    am_apps::print(to_json(exported, framework));
    return am_apps::kFine;
  }
  if (options.output.empty()) am_apps::print_file(exported.text);
  print_notes(exported.notes, output);
  if (!exported.lost.empty()) std::cerr << lost_table(exported, output.err);
  return am_apps::kFine;
}

Run declare_export(CLI::App& command, SharedOptions& shared) {
  auto options = std::make_shared<ExportOptions>();
  add_plan(command, shared);
  add_framework(command, "--to", "The framework to export to", options->framework);
  add_output(command, shared, "Write the configuration to this file", options->output);
  add_flag(command, "--flags",
           "Write command-line flags instead of a file, if the framework has both", options->flags);
  return [options, &shared](const Output& output) {
    return run_export(shared.plan, *options, output);
  };
}

}  // namespace

const Command kExportCommand = {
    .name = "export",
    .summary = "Write a plan's layout in another framework's own configuration",
    .example = "am-plan export plan.toml --to torchtitan -o torchtitan.toml",
    .declare = declare_export,
};

}  // namespace am_plan
