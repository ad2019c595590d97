// am-repl TARGET: opens a prompt or runs a script for a checkpoint, the ranks of a plan, or a
// running job. This program does not link libtorch and therefore starts within milliseconds. It
// lists tensors itself. For a prompt, a plan, a running job, and commands that read values, it
// replaces its own process by am-repl-values (starter/torch_programs.h). See lib/decisions/0012.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/home.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/frameworks/open_weights.h"
#include "am/inspect/command.h"
#include "am/inspect/completion.h"
#include "am/inspect/runs.h"
#include "am/inspect/stored_catalog.h"
#include "am/inspect/target.h"
#include "am/inspect/words.h"
#include "am/term/printable.h"
#include "common/command_line.h"
#include "common/completions.h"
#include "common/output.h"
#include "repl/options.h"
#include "repl/script.h"
#include "repl/shell.h"
#include "starter/torch_programs.h"

namespace am_repl {
namespace {

using namespace am;

// Returns whether the command needs am-repl-values, because it reads values, is for running jobs,
// or runs a file that may contain such commands.
bool needs_torch_program(const std::string& input) {
  const inspect::Command* command = inspect::command_of(input);
  if (command == nullptr) return false;
  const auto* in_console = command->as<inspect::InConsole>();
  return command->reads_values() || command->as<inspect::InJob>() != nullptr ||
         (in_console != nullptr && in_console->of_job) || command->name == "source";
}

constexpr const char* kValuesProgram = "am-repl-values";

// Function that runs instead of every command that reads values; reached only if am-repl-values is
// not installed. Throws an error with a hint that names what to install.
inspect::Result refuse_values(inspect::Session& /*session*/,
                              const inspect::Arguments& /*arguments*/) {
  am_apps::torch_program(kValuesProgram);
  throw Error(ErrorKind::kRuntime, cat(kValuesProgram, " was missing when am-repl started"));
}

// Returns the script if this program runs it; nothing if am-repl-values must run it. If
// am-repl-values is not installed, also returns scripts with commands that read values. These
// commands then fail.
std::optional<Source> own_script(const Options& options) {
  if (!options.overrides.empty() || options.nproc > 0)
    return std::nullopt;  // --set and --nproc are only for plans
  const bool alone = !am_apps::has_torch_program(kValuesProgram);
  const auto script = script_text(options);
  if (!script) {
    if (!alone || is_interactive(options)) return std::nullopt;
    return from_file_descriptor(STDIN_FILENO);
  }
  const std::vector<std::string> all = inspect::split_commands(*script, true).commands;
  if (!alone && std::any_of(all.begin(), all.end(), needs_torch_program)) return std::nullopt;
  return from_text(*script);
}

// Interpreter for scripts whose commands read only files of run folders, for example the metrics,
// and no tensors.
class NoTensors : public inspect::Interpreter {
 public:
  explicit NoTensors(const term::Style& style) : style_(style) {}
  const inspect::SessionFacts& facts() const override { return facts_; }
  inspect::Outcome run(const std::string& input) override {
    if (auto outcome = inspect::execute_without_session(input, style_)) return *std::move(outcome);
    return inspect::failed(
        input, {},
        Error(ErrorKind::kUsage, cat("`", input, "` needs one target"),
              "several targets are only for the commands `metrics`, `plot` and `compare`"));
  }

 private:
  term::Style style_;
  inspect::SessionFacts facts_;
};

// Returns whether the targets are run folders and all commands of the script read only files of run
// folders, and no tensors.
bool reads_runs_alone(const Options& options, const std::string& script) {
  if (runs_of(options).empty()) return false;
  const std::vector<std::string> all = inspect::split_commands(script, true).commands;
  return std::all_of(all.begin(), all.end(), inspect::needs_only_runs);
}

int run(const Options& options, char** argv, Json* report) {
  if (const auto text = script_text(options); text && reads_runs_alone(options, *text)) {
    const auto console = console_of(std::make_unique<NoTensors>(options.output.out), options);
    return run_to_end(*console, from_text(*text), options, report);
  }
  if (!options.more_runs.empty()) {
    throw Error(ErrorKind::kUsage, "several targets need commands that compare runs",
                "for example -c compare, or -c 'plot loss'");
  }
  const auto script = own_script(options);
  if (!script) am_apps::become_torch_program(kValuesProgram, argv);
  const inspect::Target target =
      inspect::find_target(expand_home(options.target), expand_home(options.token));
  if (target.kind != inspect::TargetKind::kWeights) {
    am_apps::become_torch_program(kValuesProgram, argv);
  }
  if (!target.note.empty()) std::cerr << term::echo(target.note) << "\n";
  auto held = std::make_unique<inspect::StoredCatalog>(
      frameworks::open_tensor_source(target.path, stored::OnDamage::kReport));
  auto opened = std::make_unique<inspect::LocalInterpreter>(inspect::Session(
      std::move(held), session_options(options), [](std::string_view) { return &refuse_values; }));
  // The console is never destroyed: a large checkpoint's index has millions of entries, which the
  // exit of the process frees faster than destructors would. The pointer is static, so that
  // LeakSanitizer reports no leak.
  static inspect::Console* const console = console_of(std::move(opened), options).release();
  return run_to_end(*console, *script, options, report);
}

am_apps::CommandDescription describe_tool() {
  return am_apps::description_of([](int argc, char** argv) {
    Options options;
    parse_options(argc, argv, {}, options);
  });
}

// Returns the names of the target's parameters, which complete the commands of -c. Returns no names
// for a running job, or if the target cannot be opened.
inspect::SessionFacts facts_of_target(const std::string& given) {
  inspect::SessionFacts facts;
  try {
    const inspect::Target target = inspect::find_target(expand_home(given));
    if (target.kind == inspect::TargetKind::kPlan) {
      facts.parameters = am_apps::parameter_names(target.path.string());
    } else if (target.kind == inspect::TargetKind::kWeights) {
      const auto source = frameworks::open_tensor_source(target.path, stored::OnDamage::kReport);
      for (const auto& tensor : source->tensors()) facts.parameters.push_back(tensor.name);
    }
  } catch (const Error&) {
    return facts;
  }
  return facts;
}

// Returns the values that may complete the option or argument `asked`: targets in the folder runs
// or, for -c, the typed commands with a completed last word.
am_apps::Words values_of(const am_apps::Asked& asked) {
  am_apps::Words out;
  const std::string& name = asked.option.names.back();
  if (name == "TARGET" || name == "RUNS") {
    for (const auto& path : inspect::targets_in("runs")) out.add(path.string());
  } else if (name == "--command") {
    inspect::SessionFacts facts;
    if (!asked.arguments.empty()) facts = facts_of_target(asked.arguments.front());
    const inspect::Completion found = inspect::complete(asked.typed, facts);
    for (const std::string& each : found.candidates) {
      out.add(asked.typed.substr(0, found.begin) + each);
    }
  }
  return out;
}

}  // namespace
}  // namespace am_repl

int main(int argc, char** argv) {
  // A write beyond RLIMIT_FSIZE must fail with an error that names the file, instead of killing the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  am::guard_mapped_files();
  if (const auto answered =
          am_apps::answer_shell(argc, argv, am_repl::describe_tool, am_repl::values_of)) {
    return *answered;
  }
  am_repl::Options options;
  if (const auto status = am_repl::parse_options(argc, argv, &am_apps::library_versions, options)) {
    return *status;
  }
  am_apps::Output for_people = options.output;
  for_people.json = false;  // errors are in the JSON report already: guarded() prints only text
  return am_apps::guarded("am-repl", for_people, [&] {
    return am_repl::reported(options,
                             [&](am::Json* report) { return am_repl::run(options, argv, report); });
  });
}
