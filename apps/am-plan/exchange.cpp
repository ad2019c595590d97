// am-plan export PLAN --to F, am-plan import FILE --from F: layouts in other frameworks' files.
#include "am/planner/exchange/exchange.h"

#include <filesystem>
#include <iostream>
#include <map>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/term/printable.h"
#include "am/term/table.h"
#include "am/term/wrap.h"
#include "commands.h"
#include "plan_input.h"

namespace am_plan {
namespace {

using am::planner::Exported;
using am::planner::Framework;
using am::planner::Ignored;
using am::planner::Imported;
using am::planner::Lost;

void print_notes(const std::vector<std::string>& notes, const Output& output) {
  for (const std::string& note : notes) {
    std::cerr << am::term::fold(
        am::cat(output.err.paint(am::term::Role::kNote, "note"), ": ", am::term::echo(note), "\n"),
        output.err);
  }
}

const Framework& framework_of(const std::string& name) {
  const Framework* framework = am::planner::find_framework(name);
  AM_ASSERT(framework != nullptr, "the command line checks the name");
  return *framework;
}

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

// Keys that are ignored for one reason share a row.
std::string ignored_table(const Imported& imported, const am::term::Style& style) {
  std::vector<std::string> reasons;
  std::map<std::string, std::vector<std::string>> keys;
  for (const Ignored& item : imported.ignored) {
    if (keys[item.why].empty()) reasons.push_back(item.why);
    keys[item.why].push_back(item.key);
  }
  std::string text;
  for (const std::string& why : reasons) {
    text += am::cat(style.paint(am::term::Role::kNote, "ignored"), ": ", why, ": ",
                    am::term::printable(am::join(keys[why], ", ")), "\n");
  }
  return am::term::fold(text, style);
}

am::Json to_json(const Exported& exported, const Framework& framework) {
  am::Json lost = am::Json::array();
  for (const Lost& item : exported.lost) {
    lost.push_back({{"key", item.key}, {"value", am::Json::parse(item.value)}, {"why", item.why}});
  }
  am::Json json = am::Json::object();
  json["framework"] = framework.name;
  json["text"] = exported.text;
  json["lost"] = std::move(lost);
  json["notes"] = exported.notes;
  return json;
}

am::Json to_json(const std::vector<Ignored>& items) {
  am::Json list = am::Json::array();
  for (const Ignored& item : items) {
    list.push_back({{"key", item.key}, {"value", am::Json::parse(item.value)}, {"why", item.why}});
  }
  return list;
}

am::Json to_json(const Imported& imported) {
  am::Json json = am::Json::object();
  json["plan"] = am::config::to_json(imported.plan);
  json["ignored"] = to_json(imported.ignored);
  json["lost"] = to_json(imported.lost);
  json["notes"] = imported.notes;
  return json;
}

// --model is relative to here, as every argument is; model.path is relative to the plan's file.
std::string seen_from(const std::filesystem::path& plan, const std::string& model) {
  if (plan.empty() || std::filesystem::path(model).is_absolute()) return model;
  const auto folder = std::filesystem::absolute(plan).parent_path();
  return std::filesystem::absolute(model).lexically_relative(folder).lexically_normal().string();
}

void set_model(const ImportOptions& options, Imported& imported) {
  std::string& path = imported.plan.model.path;
  if (!options.model.empty()) {
    path = seen_from(options.output, options.model);
  } else if (path == ".") {
    imported.notes.emplace_back(
        "model.path is \".\", this folder: --model names a config.json or its folder");
  } else {
    imported.notes.push_back(
        am::cat("model.path is the file's own, \"", path,
                "\": a plan needs a config.json there, or --model with another folder"));
  }
}

// Holds the sizes that the file repeats against the model that --model names.
void compare_model(const ImportOptions& options, Imported& imported, am::Diagnostics& found) {
  if (imported.geometry.empty() || options.model.empty()) return;
  try {
    const auto model = am::model::load_config(options.model, found);
    if (model) am::planner::compare_geometry(imported, *model, found, options.force);
  } catch (const am::Error& error) {
    imported.notes.push_back(
        am::cat("the model's sizes in the file were not compared: ", error.what()));
  }
}

}  // namespace

int run_export(const ExportOptions& options, const Output& output) {
  const Framework& framework = framework_of(options.framework);
  if (options.flags && !framework.has_flags) {
    throw am::Error(am::ErrorKind::kUsage,
                    am::cat("--flags: ", framework.name, " has one form, ", framework.format));
  }
  int status = am_apps::kFine;
  const auto input = load_input(options.plan, output, status);
  if (!input.has_value()) return status;
  const Exported exported = am::planner::export_plan(
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

int run_import(const ImportOptions& options, const Output& output) {
  const Framework& framework = framework_of(options.framework);
  am::Diagnostics found;
  auto imported = am::planner::import_plan(framework, am::read_file(options.file), options.file,
                                           found, options.force);
  if (imported.has_value()) compare_model(options, *imported, found);
  if (!found.ok() || !imported.has_value()) return am_apps::refuse(found, output);
  set_model(options, *imported);
  am_apps::print_diagnostics(found, output);
  if (!options.output.empty()) am::write_file_atomically(options.output, imported->toml());
  if (output.json) {
    am_apps::print(to_json(*imported));
    return am_apps::kFine;
  }
  if (options.output.empty()) am_apps::print_file(imported->toml());
  print_notes(imported->notes, output);
  std::cerr << ignored_table(*imported, output.err);
  return am_apps::kFine;
}

}  // namespace am_plan
