#include <CLI/CLI.hpp>

#include "common/command_line.h"
#include "job/options.h"

namespace am_run {

namespace {

constexpr const char* kDescription =
    "Checks this machine and all that the job reads (data, tokenizer, weights, the checkpoint from "
    "which it resumes), and reports whether the plan can run, before any rank "
    "starts.\n\nExamples:\n  am-run doctor plan.toml\n  am-run doctor plan.toml --nnodes 2 "
    "--node-rank 1 --rdzv host0:29500 --json";

}  // namespace

std::optional<Options> parse_doctor_options(int argc, char** argv, int& status) {
  Options options;
  am_apps::CommonFlags flags;
  std::vector<std::string> sets;
  CLI::App app(kDescription, "am-run doctor");
  app.add_option("PLAN", options.plan, "The plan file (TOML)")->required();
  am_apps::add_set(app, sets);
  add_run_dir(app, options);
  add_placement(app, options);
  am_apps::add_plugins(app, flags);
  am_apps::add_json(app, flags,
                    "{\"ok\", \"checks\": [{\"name\", \"status\", \"message\", \"help\"}]}");
  am_apps::add_color(app, flags);
  if (const auto ended = am_apps::parse(app, argc, argv)) {
    status = *ended;
    return std::nullopt;
  }
  if (!placement_is_possible(app, options)) {
    status = am_apps::kUnusable;
    return std::nullopt;
  }
  options.overrides = am_apps::overrides_of(sets);
  options.plugins = flags.plugins();
  options.output = am_apps::Output::of(flags.json, flags.color_mode());
  return options;
}

}  // namespace am_run
