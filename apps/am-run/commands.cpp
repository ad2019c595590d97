// The table of am-run's commands, and the two commands that describe am-run: am-run completions
// SHELL and am-run man [COMMAND].
#include <CLI/CLI.hpp>
#include <array>

#include "am/base/fault.h"
#include "am/inspect/target.h"
#include "common/command_line.h"
#include "common/man_page.h"
#include "job.h"
#include "job/plan_file.h"

namespace am_run {

namespace {

constexpr const char* kCompletionsDescription =
    "Prints completions for a shell.\n\n"
    "Examples:\n"
    "  source <(am-run completions bash)";
constexpr const char* kManDescription =
    "Prints the manual page of am-run or of one command. With -o, writes the pages of am-run and "
    "of all its commands to a folder.\n\n"
    "Examples:\n"
    "  am-run man doctor | man -l -";

constexpr std::array kCommands = {
    Command{"init", run_init},
    Command{"doctor", run_doctor},
    Command{"files", run_files},
    Command{"prepare", run_prepare},
    Command{"show-batch", run_show_batch},
    Command{"ls", run_list},
    Command{"compare", run_compare},
    Command{"completions", run_completions},
    Command{"man", run_man},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

am_apps::CommandDescription describe_tool() {
  auto tool = am_apps::description_of([](int argc, char** argv) {
    int status = 0;
    parse_options(argc, argv, {}, status);
  });
  for (const Command& command : kCommands) {
    tool.commands.push_back(am_apps::description_of(command.run));
    tool.commands.back().name = command.name;
  }
  return tool;
}

am_apps::Words values_of(const am_apps::Asked& asked) {
  am_apps::Words out;
  const std::string& name = asked.option.names.back();
  if (name == "--fault") {
    for (const auto& fault : am::fault::all()) {
      out.add(std::string(fault.name), std::string(fault.what));
    }
  } else if (name == "--resume") {
    out.files = true;
    for (const char* word : {"auto", "none"}) out.add(word);
    if (asked.arguments.empty()) return out;
    Options options;
    options.plan = asked.arguments.front();
    for (const auto& path : am::inspect::targets_in(run_root(options) / "checkpoints")) {
      out.add(path.lexically_relative(std::filesystem::current_path()).string());
    }
  }
  return out;
}

int run_completions(int argc, char** argv) {
  std::string shell;
  CLI::App app(kCompletionsDescription, "am-run completions");
  am_apps::add_shell(app, shell);
  if (const auto ended = am_apps::parse(app, argc, argv)) return *ended;
  am_apps::print(am_apps::completions("am-run", shell));
  return am_apps::kFine;
}

int run_man(int argc, char** argv) {
  am_apps::ManOptions options;
  CLI::App app(kManDescription, "am-run man");
  am_apps::add_man(app, options);
  if (const auto ended = am_apps::parse(app, argc, argv)) return *ended;
  return am_apps::guarded("am-run man", am_apps::Output(), [&] {
    am_apps::run_man(describe_tool(), options);
    return am_apps::kFine;
  });
}

}  // namespace am_run
