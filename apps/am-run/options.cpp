#include "options.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "am/base/text.h"

namespace am_run {

namespace {

constexpr const char* kDescription =
    "Launches the training that a plan describes, and trains.\n"
    "\n"
    "Examples:\n"
    "  am-run plans/quickstart.toml                          start this machine's ranks\n"
    "  am-run plan.toml --steps 20 --set optimizer.lr=3e-4   override the plan\n"
    "  am-run plan.toml --nnodes 2 --node-rank 0 --rdzv host0:29500\n"
    "  srun am-run plan.toml                                 under a launcher each process is a rank";

bool is_host_and_port(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) return false;
  const std::string port = text.substr(colon + 1);
  return port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
}

std::string version_text() {
  return am::cat("am-run ", AM_VERSION, "\nlibtorch ", AM_TORCH_VERSION, "\nnccl not linked");
}

// A path on the command line is relative to here; in a plan it would be relative to the plan.
std::string resume_value(const std::string& text) {
  if (text == "auto" || text == "none") return text;
  return std::filesystem::absolute(text).lexically_normal().string();
}

std::string quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, int& status) {
  Options options;
  std::vector<std::string> sets;
  std::string resume;
  std::string color = "auto";
  int64_t steps = 0;
  CLI::App app(kDescription, "am-run");
  app.add_option("PLAN", options.plan, "The plan file (TOML)")->required();
  app.add_option("--set", sets, "Override the plan: section.key=value, a TOML value; repeatable")
      ->type_size(1)
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--run-dir", options.run_dir, "The run folder (default: runs/NAME-OF-PLAN)");
  app.add_option("--steps", steps, "Train to this step (train.max_steps)")->check(CLI::PositiveNumber);
  app.add_option("--resume", resume, "auto: the run folder's latest checkpoint; none; or a checkpoint");
  app.add_option("--nproc", options.nproc, "Ranks on this machine (default: the plan's)")
      ->check(CLI::PositiveNumber);
  app.add_option("--nnodes", options.nnodes, "Machines")->check(CLI::PositiveNumber);
  app.add_option("--node-rank", options.node_rank, "Which machine this is, from 0")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--rdzv", options.rdzv, "HOST:PORT of machine 0, for several machines");
  app.add_option("--timeout", options.timeout_seconds,
                 "Seconds that a rank waits for its peers in a collective (default: 600)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", options.json, "One JSON object about the finished job on stdout");
  app.add_option("--color", color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.set_version_flag("--version", version_text());
  try {
    app.parse(argc, argv);
    if (!options.rdzv.empty() && !is_host_and_port(options.rdzv)) {
      throw CLI::ValidationError("--rdzv", "expected HOST:PORT, e.g. node0:29500");
    }
    if (options.nnodes > 1 && options.rdzv.empty()) {
      throw CLI::ValidationError("--nnodes", "several machines need --rdzv HOST:PORT");
    }
    if (options.node_rank >= options.nnodes) {
      throw CLI::ValidationError("--node-rank", "must be below --nnodes");
    }
  } catch (const CLI::ParseError& error) {
    // CLI11's own statuses (100..115) are not ours.
    status = app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
    return std::nullopt;
  }
  for (const auto& text : sets) options.overrides.push_back({text});
  if (steps > 0) options.overrides.push_back({am::cat("train.max_steps=", steps)});
  if (!resume.empty()) {
    options.overrides.push_back({"checkpoint.resume=" + quoted(resume_value(resume))});
  }
  options.color = *am::term::parse_color_mode(color);
  return options;
}

}  // namespace am_run
