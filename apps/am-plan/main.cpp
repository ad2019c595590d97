// am-plan: plans, checks and shows parallel layouts from a plan file and a model's config.
#include <functional>
#include <optional>

#include "am/base/text.h"
#include "commands.h"
#include "common/command_line.h"
#include "common/completions.h"
#include "common/output.h"
#include "options.h"

namespace am_plan {
namespace {

struct Invocation {
  Output output;
  std::function<int()> run;
};

constexpr const char* kDescription =
    "Plans parallel training: checks a plan, draws its mesh, shows which rank holds which shard "
    "and how much memory a step takes.\nIt needs the plan and the model's config.json: no GPU, no "
    "weights, no network.";

constexpr const char* kExamples =
    "Examples:\n"
    "  am-plan check plans/*.toml\n"
    "  am-plan show plan.toml --set mesh.tp_size=4\n"
    "  am-plan shards plan.toml --param '*.q_proj.weight'\n"
    "  am-plan memory plan.toml --json\n"
    "  am-plan explain tp.kv_heads";

class CommandLine {
 public:
  CommandLine() : app_(kDescription, "am-plan") {
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.set_version_flag("--version", am::cat("am-plan ", AM_VERSION));
    app_.footer(kExamples);
    am_apps::add_color(app_, flags_);
    for (const Command* command : commands()) add(*command);
  }
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  am_apps::CommandDescription description() const { return am_apps::describe(app_); }

  // Parses the command line and returns the command to run. Returns nothing if am-plan must exit
  // with `status`: 0 after printing help or the version, 2 after an error in the command line,
  // which is reported on stderr.
  std::optional<Invocation> parse(int argc, char** argv, int& status) {
    if (const auto ended = am_apps::parse(app_, argc, argv)) {
      status = *ended;
      return std::nullopt;
    }
    shared_.settle();
    const Output output = Output::of(flags_.json, flags_.color_mode());
    return Invocation{output, [this, output] {
                        shared_.require_free_outputs();
                        return run_(output);
                      }};
  }

 private:
  void add(const Command& row) {
    CLI::App* command = app_.add_subcommand(row.name, row.summary);
    command->footer(am::cat("Example:\n  ", row.example));
    command->callback([this, run = row.declare(*command, shared_)] { run_ = run; });
  }

  CLI::App app_;
  am_apps::CommonFlags flags_;
  SharedOptions shared_{flags_};
  Run run_;
};

}  // namespace
}  // namespace am_plan

int main(int argc, char** argv) {
  am_plan::CommandLine line;  // owns the options that the invocation reads
  const auto describe = [&line] { return line.description(); };
  if (const auto answered = am_apps::answer_shell(argc, argv, describe, am_plan::values_of)) {
    return *answered;
  }
  int status = 0;
  const auto invocation = line.parse(argc, argv, status);
  if (!invocation.has_value()) return status;
  return am_apps::guarded("am-plan", invocation->output, invocation->run);
}
