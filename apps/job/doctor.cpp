#include "job/doctor.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "am/base/text.h"
#include "am/launch/environment/nccl.h"
#include "am/layout/backend_choice.h"
#include "am/layout/precision.h"
#include "am/observe/loggers.h"
#include "am/predict/memory/memory.h"
#include "am/predict/time/goodput.h"
#include "am/rules/check.h"
#include "am/run_folder/checkpoint_folder.h"
#include "am/term/caret.h"
#include "am/term/table.h"
#include "common/output.h"
#include "job/options.h"
#include "job/placement.h"
#include "job/plan_file.h"

namespace am_run {

namespace {

using namespace am;

// Checks the plan for the world size that its mesh determines. If the mesh leaves the world size
// open, checks the plan for `given_world`, the world size of the launcher or of the options.
rules::CheckedPlan check_plan(const config::Plan& plan, int64_t given_world, Diagnostics& found) {
  Diagnostics alone;
  rules::CheckedPlan checked = rules::check(plan, 0, alone);
  if (!checked.mesh && given_world > 0) return rules::check(plan, given_world, found);
  found.append(alone);
  return checked;
}

int64_t worst_peak(const config::Plan& plan, const rules::CheckedPlan& checked) {
  int64_t worst = 0;
  for (const auto& stage : predict::worst_of_stages(plan, *checked.model, *checked.layout)) {
    worst = std::max(worst, stage.components.total());
  }
  return worst;
}

int64_t checkpoints_kept(const config::Plan& plan) {
  const auto& checkpoint = plan.checkpoint;
  const int64_t between = checkpoint.every == 0 ? 0 : plan.train.max_steps / checkpoint.every;
  const int64_t written = between + (checkpoint.last ? 1 : 0);
  const int64_t others =
      checkpoint.keep_best +
      (checkpoint.keep_every > 0 ? plan.train.max_steps / checkpoint.keep_every : 0);
  return checkpoint.keep == 0 ? written : std::min(written, checkpoint.keep + others);
}

// Sets the members of `needs` that describe the given world size, the nodes, the ranks of this
// machine and the rendezvous. If a launcher started this process, the values come from `here`, the
// launcher's environment variables. Otherwise they come from the command line.
void place(const Options& options, const std::optional<launch::RankEnvironment>& here,
           launch::JobNeeds& needs) {
  if (here) {
    needs.given_world_size = here->world_size;
    needs.ranks_here = here->local_world_size;
    needs.num_nodes = here->num_nodes;
    needs.master_addr = here->master_addr;
    needs.master_port = here->master_port;
    needs.serves_port = here->rank == 0 && !here->agent_store;
    return;
  }
  needs.given_world_size = options.nproc * options.nnodes;
  needs.num_nodes = options.nnodes;
  needs.ranks_here = std::max<int64_t>(1, needs.world_size / options.nnodes);
  if (options.nproc > 0) needs.ranks_here = options.nproc;
  needs.serves_port = options.node_rank == 0;
  if (options.rdzv.empty()) return;
  const auto [host, port] = host_and_port(options.rdzv);
  needs.master_addr = host;
  needs.master_port = port;
}

launch::JobNeeds needs_of(const Options& options, const config::Plan& plan,
                          const rules::CheckedPlan& checked,
                          const std::optional<launch::RankEnvironment>& here) {
  launch::JobNeeds needs;
  needs.world_size = checked.mesh->world_size();
  needs.shards_parameters =
      !std::holds_alternative<config::DDPConfig>(plan.strategy) && checked.mesh->dp_shard > 1;
  needs.cuts_layers = checked.mesh->tp > 1 || checked.mesh->cp > 1;
  needs.peak_bytes = worst_peak(plan, checked);
  needs.checkpoint_bytes = std::llround(predict::checkpoint_bytes(plan, *checked.layout));
  needs.checkpoints_kept = checkpoints_kept(plan);
  place(options, here, needs);
  return needs;
}

// Returns the paths at which NCCL may be found. Some are derived from the path of the loaded
// libtorch, because pip installs the wheel of NCCL next to that of torch.
std::vector<std::string> nccl_libraries() {
  std::vector<std::string> libraries = {"libnccl.so.2"};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos || !ends_with(line, "/libtorch_cpu.so")) continue;
    const auto torch = std::filesystem::path(line.substr(path)).parent_path().parent_path();
    libraries.push_back(torch.parent_path() / "nvidia/nccl/lib/libnccl.so.2");
    libraries.push_back(torch / "lib/libnccl.so.2");
    break;
  }
  return libraries;
}

std::string chosen_backend(const config::Plan& plan, const launch::Machine& machine) {
  return layout::asked_backend(plan).value_or(machine.gpus.gpus.empty() ? "gloo" : "nccl");
}

term::Cell status_cell(launch::CheckStatus status, const term::Style& style) {
  switch (status) {
    case launch::CheckStatus::kOk:
      return {style.unicode ? "✓" : "ok", term::Role::kAccent};
    case launch::CheckStatus::kWarning:
      return {"!", term::Role::kWarning};
    case launch::CheckStatus::kError:
      return {style.unicode ? "✗" : "x", term::Role::kError};
    case launch::CheckStatus::kSkipped:
      return {"-", term::Role::kDim};
  }
  return "";
}

std::string table_text(const std::vector<launch::Check>& checks, const term::Style& style) {
  term::Table table({{""}, {""}, {"", term::Align::kWrap}});
  for (const launch::Check& check : checks) {
    const bool skipped = check.status == launch::CheckStatus::kSkipped;
    const auto role = skipped ? term::Role::kDim : term::Role::kPlain;
    table.add({status_cell(check.status, style), {check.name, role}, {check.message, role}});
    if (!check.help.empty()) {
      table.add({"", "", {cat("help: ", check.help), term::Role::kHelp}});
    }
  }
  return table.text(style);
}

std::string summary(const std::vector<launch::Check>& checks) {
  const auto count = [&](launch::CheckStatus status) {
    return std::count_if(checks.begin(), checks.end(),
                         [&](const launch::Check& check) { return check.status == status; });
  };
  const auto errors = count(launch::CheckStatus::kError);
  const auto warnings = count(launch::CheckStatus::kWarning);
  return cat(errors == 0 ? "this machine can run the plan" : "this machine cannot run the plan",
             ": ", errors, errors == 1 ? " error, " : " errors, ", warnings,
             warnings == 1 ? " warning\n" : " warnings\n");
}

int report(const std::vector<launch::Check>& checks, const am_apps::Output& output) {
  if (output.json) {
    am_apps::print(to_json(checks));
  } else {
    am_apps::print(cat(table_text(checks, output.out), summary(checks)));
  }
  return is_healthy(checks) ? am_apps::kFine : am_apps::kInvalid;
}

// Reports an invalid plan and returns the exit status. The machine is not examined in this case.
int refuse_plan(const Diagnostics& found, const am_apps::Output& output) {
  am_apps::print_diagnostics(found, output);
  const auto& items = found.items();
  const auto first = std::find_if(items.begin(), items.end(), [](const Diagnostic& item) {
    return item.severity == Severity::kError;
  });
  if (output.json) {
    am_apps::print(to_json(std::vector<launch::Check>{
        {"plan", launch::CheckStatus::kError, first->message, first->help}}));
  }
  return am_apps::status_of(found);
}

}  // namespace

launch::Check check_opens(const char* name, const std::function<std::string()>& open) {
  try {
    return {name, launch::CheckStatus::kOk, open(), {}};
  } catch (const Error& error) {
    return {name, launch::CheckStatus::kError, error.what(), error.hint()};
  }
}

launch::Check check_loggers(const std::vector<std::string>& names) {
  std::vector<std::string> problems;
  launch::Check result = check_opens("loggers", [&] {
    for (const std::string& name : names) {
      if (const auto problem = observe::why_no_logger(name)) problems.push_back(*problem);
    }
    return join(problems.empty() ? names : problems, "; ");
  });
  // A logger that cannot run is only a warning, because the job can train without it.
  if (!problems.empty() || result.status == launch::CheckStatus::kError) {
    result.status = launch::CheckStatus::kWarning;
    result.help =
        "set AM_PYTHON to a Python, 3.11 or newer, in which pip has installed the service's "
        "package";
  }
  return result;
}

int examine_machine(Options options, const TorchFacts& torch, const ExamineInputs& examine_inputs) {
  Diagnostics found;
  auto plan = config::load_plan(options.plan, options.overrides, found);
  if (!plan) return refuse_plan(found, options.output);
  plan->plugins = options.plugins;
  // Errors in the launcher's environment variables, or in options that contradict these variables.
  // The table of checks contains the first error.
  Diagnostics variables;
  const auto here = place_process(options, launch::process_environment(), variables);
  const int64_t given_world = here ? here->world_size : options.nproc * options.nnodes;
  const auto checked = check_plan(*plan, given_world, found);
  if (!found.ok() || !checked.layout) return refuse_plan(found, options.output);
  launch::JobNeeds needs = needs_of(options, *plan, checked, here);
  needs.torch_version = torch.version;
  needs.torch_problem = torch.problem;
  needs.placed_by_options = !here && !options.placement.empty();
  if (!variables.ok()) needs.placement_problem = variables.items().front();
  launch::MachineSources sources;
  sources.nccl = nccl_libraries();
  const auto checkpoints =
      run_folder::checkpoint_folder(*plan, run_folder::RunFolder(run_root(options)));
  const launch::Machine machine =
      gather_machine({.run_folder = checkpoints,
                      .master_addr = needs.master_addr,
                      .master_port = needs.serves_port ? needs.master_port : 0},
                     sources);
  needs.backend = chosen_backend(*plan, machine);
  needs.ranks_per_gpu = options.ranks_per_gpu > 0 ? options.ranks_per_gpu : launch::ranks_per_gpu();
  std::vector<launch::Check> checks = examine(needs, machine);
  const auto inputs = examine_inputs(*plan, checked, checkpoints);
  checks.insert(checks.end(), inputs.begin(), inputs.end());
  return report(checks, options.output);
}

}  // namespace am_run
