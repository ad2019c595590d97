#include "repl/options.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <vector>

#include "am/base/home.h"
#include "am/base/text.h"
#include "am/inspect/answers.h"
#include "am/inspect/command.h"
#include "am/inspect/target.h"
#include "am/term/printable.h"
#include "common/command_line.h"
#include "common/completions.h"
#include "common/description.h"
#include "common/man_page.h"

namespace am_repl {
namespace {

constexpr const char* kDescription =
    "Opens a checkpoint or a plan, and answers questions about its sharded parameters.\n\nTARGET "
    "is a folder of Hugging Face safetensors, a checkpoint of am-run or of another framework, a "
    "run folder of am-run, or a plan. The ranks of a plan are started on this machine and hold the "
    "sharded model. If the job of a run folder is running, am-repl attaches to it: commands run "
    "between two steps, and training continues. Without -c and -f, commands come from standard "
    "input; at a terminal there is a prompt, where `help` lists them.";

constexpr const char* kExamples =
    "Examples:\n"
    "  am-repl runs/quickstart\n"
    "  am-repl runs/quickstart -c 'pause; stats *norm*; step 10; continue'    # while it trains\n"
    "  am-repl models/llama -c 'ls *.q_proj.weight; stats *norm*'\n"
    "  am-repl runs/quickstart -c 'plot loss'\n"
    "  am-repl runs/a runs/b -c compare\n"
    "  am-repl plan.toml -c 'unshard model.layers.0; memory'\n"
    "  echo 'loss \"some text\"' | am-repl models/llama --json";

}  // namespace

namespace {

std::string manual(const CLI::App& app) {
  am_apps::CommandDescription tool = am_apps::describe(app);
  for (const am::inspect::Command* command : am::inspect::commands()) {
    std::string help = am::cat(command->summary, ".\n", am::inspect::help_text(*command));
    for (const am::inspect::Option& option : command->options) {
      help += am::cat("\n", option.name, option.value.empty() ? "" : " ", option.value, ": ",
                      option.help, ".");
    }
    tool.words.emplace_back(command->usage(), std::move(help));
  }
  return am_apps::man_page(tool);
}

}  // namespace

namespace {

// Prints the targets in the current folder and in runs/. Returns the exit status: kUnusable if
// there are none.
int list_targets(bool json) {
  std::vector<std::filesystem::path> targets = am::inspect::targets_in("runs");
  for (const auto& path : am::inspect::targets_in(".")) {
    if (path != "./runs") targets.push_back(path.lexically_normal());
  }
  am::Json names = am::Json::array();
  for (const auto& path : targets) names.push_back(path.string());
  if (json) {
    am_apps::print(am::Json{{"targets", names}});
  } else {
    for (const am::Json& name : names) {
      am_apps::print(am::term::echo(name.get<std::string>()) + "\n");
    }
  }
  if (!targets.empty()) return am_apps::kFine;
  std::cerr << "am-repl: TARGET is required, and neither this folder nor runs/ contains one; see "
               "--help\n";
  return am_apps::kUnusable;
}

}  // namespace

std::optional<int> parse_options(int argc, char** argv,
                                 const std::function<std::string()>& libraries, Options& options) {
  std::vector<std::string> sets;
  std::string commands;
  std::string script;
  am_apps::CommonFlags flags;
  CLI::App app(kDescription, "am-repl");
  app.footer(kExamples);
  app.set_version_flag("--version",
                       [&] { return am::cat("am-repl ", AM_VERSION, "\n", libraries()); });
  auto* target = app.add_option(
      "TARGET", options.target,
      "A checkpoint folder, a run folder, a plan, or tcp://HOST:PORT. Without it, the "
      "targets in this folder and in runs/ are listed");
  app.add_option("RUNS", options.more_runs, "Further run folders, for `compare` and `plot`");
  auto* inline_commands =
      app.add_option("-c,--command", commands, "Run these, separated by ; or newlines, and end")
          ->type_name("COMMANDS");
  auto* from_file = app.add_option("-f,--file", script, "Run the commands of this file, and end")
                        ->type_name("SCRIPT");
  from_file->excludes(inline_commands);
  am_apps::add_json(app, flags, "One object on stdout: {\"results\": [..]}, one entry per command");
  am_apps::add_set(app, sets);
  app.add_option("--nproc", options.nproc, "Ranks of a plan (default: the plan's)")
      ->check(am_apps::integer_from(1))
      ->type_name("N");
  app.add_option("--tokenizer", options.tokenizer,
                 "bytes, or a tokenizer.json, tokenizer.model or tekken.json (default: the "
                 "plan's or the folder's own)")
      ->type_name("NAME");
  app.add_option("--token", options.token, "Copy of control/token, for a job at tcp://HOST:PORT")
      ->type_name("FILE");
  app.add_flag("--force", options.force,
               "Run commands even if they need more memory than this machine has available");
  app.add_flag("--keep-going", options.keep_going,
               "Run the other commands of a script after one that fails or finds a problem");
  app.add_flag("--write", options.write,
               "Allow commands that change a running job or make it write files (save, export, set "
               "optimizer.lr); the default is read-only");
  app.add_flag_callback(
      "--man", [&] { throw CLI::CallForVersion(manual(app), 0); },
      "Print the manual page, with all commands of a session");
  am_apps::add_completions(app);
  app.add_flag_callback(
      "--schema",
      [&] { throw CLI::CallForVersion(am::dump_json(am::inspect::answers_schema()), 0); },
      "Print a JSON Schema of what --json prints");
  am_apps::add_plugins(app, flags);
  am_apps::add_color(app, flags);
  if (const auto status = am_apps::parse(app, argc, argv)) return status;
  if (options.target.empty()) {
    const bool has_commands = inline_commands->count() > 0 || from_file->count() > 0 ||
                              (!flags.json && ::isatty(STDIN_FILENO) == 0);
    if (target->count() == 0 && !has_commands) return list_targets(flags.json);
    std::cerr << "am-repl: TARGET is required\n";
    return am_apps::kUnusable;
  }
  if (inline_commands->count() > 0) options.commands = commands;
  if (from_file->count() > 0) options.script = script;
  if (!options.tokenizer.empty() && options.tokenizer != "bytes") {
    options.tokenizer = am::expand_home(options.tokenizer).string();
  }
  options.overrides = am_apps::overrides_of(sets);
  options.plugins = flags.plugins();
  options.output = am_apps::Output::of(flags.json, flags.color_mode());
  if (am::term::can_redraw(STDERR_FILENO)) {
    options.progress = std::make_shared<am::inspect::Progress>();
  }
  if (!options.output.json && am::term::can_redraw(STDOUT_FILENO)) {
    options.live_text = std::make_shared<am::inspect::LiveText>();
    options.live_text->print = [](const std::string& text) { am_apps::print(text); };
  }
  return std::nullopt;
}

}  // namespace am_repl
