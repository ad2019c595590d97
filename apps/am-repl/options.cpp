#include "options.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "am/base/text.h"

namespace am_repl {
namespace {

constexpr const char* kDescription =
    "Opens a checkpoint or a plan, and answers questions about its sharded parameters.\n"
    "\n"
    "TARGET is a folder of Hugging Face safetensors, a checkpoint or a run folder of am-run, or a "
    "plan:\n"
    "then its ranks are started here and hold the sharded model.\n"
    "\n"
    "Examples:\n"
    "  am-repl runs/quickstart                                 a prompt; `help` lists the "
    "commands\n"
    "  am-repl models/llama -c 'ls *.q_proj.weight; stats *norm*'\n"
    "  am-repl plan.toml -c 'unshard model.layers.0; memory'   start the plan's ranks\n"
    "  echo 'loss \"some text\"' | am-repl models/llama --json";

std::string version_text() {
  return am::cat("am-repl ", AM_VERSION, "\nlibtorch ", AM_TORCH_VERSION, "\nnccl not linked");
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, int& status) {
  Options options;
  std::vector<std::string> sets;
  std::string commands;
  std::string script;
  std::string color = "auto";
  CLI::App app(kDescription, "am-repl");
  app.add_option("TARGET", options.target, "A checkpoint folder, a run folder, or a plan")
      ->required();
  auto* inline_commands = app.add_option("-c,--command", commands,
                                         "Run these commands, separated by ; or newlines, and end");
  auto* from_file = app.add_option("-f,--file", script, "Run the commands of this file, and end");
  from_file->excludes(inline_commands);
  app.add_flag("--json", options.json,
               "Print one JSON object: {\"results\": [..]}, an entry a command");
  app.add_option("--set", sets, "Override the plan: section.key=value, a TOML value; repeatable")
      ->type_size(1)
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--nproc", options.nproc, "Ranks of a plan (default: the plan's)")
      ->check(CLI::PositiveNumber);
  app.add_option("--tokenizer", options.tokenizer,
                 "bytes, or a tokenizer.json (default: the plan's or the folder's own)");
  app.add_option("--color", color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.set_version_flag("--version", version_text());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11's own statuses (100..115) are not ours.
    status = app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
    return std::nullopt;
  }
  if (inline_commands->count() > 0) options.commands = commands;
  if (from_file->count() > 0) options.script = script;
  for (const std::string& text : sets) options.overrides.push_back({text});
  options.color = *am::term::parse_color_mode(color);
  return options;
}

}  // namespace am_repl
