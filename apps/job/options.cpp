#include "job/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string_view>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/term/printable.h"
#include "common/command_line.h"

namespace am_run {

namespace {

constexpr const char* kRunDescription =
    "Launches the training that a plan describes, and trains; or launches any other program.\n\n"
    "Examples:\n"
    "  am-run init --model llama-3.1-8b --gpus 8 -o plan.toml   write a plan\n"
    "  am-run plans/quickstart.toml                          start this machine's ranks\n"
    "  am-run plan.toml --steps 20 --set optimizer.lr=3e-4   override the plan\n"
    "  am-run plan.toml --max-restarts 3                     go on after a failure\n"
    "  am-run plan.toml --nnodes 2 --node-rank 0 --rdzv host0:29500\n"
    "  srun am-run plan.toml                                 under a launcher each process is a "
    "rank\n"
    "  am-run --nproc 8 --exec python train.py --lr 3e-4     any program that torchrun can start\n"
    "  am-run doctor plan.toml                               is this machine fit for the plan?\n"
    "  am-run prepare plan.toml                              tokenise its text once, for all jobs\n"
    "  am-run show-batch plan.toml                           what is the model trained on?\n"
    "  am-run ls                                             the runs in runs/, and their losses\n"
    "  am-run compare runs/plan                              a run against its plan's prediction\n"
    "  am-run files plan.toml --slurm                        a script for sbatch, or --jobset\n"
    "  am-run completions bash                               completions for bash, zsh or fish\n"
    "  am-run man files                                      the manual page of a command";

constexpr const char* kExecHelp =
    "Start this program instead of a plan on every rank, with torchrun's variables (--nproc "
    "defaults to 1); everything after --exec is its command line";

// Returns the value of --resume for the plan's key checkpoint.resume. Makes a path absolute:
// --resume is relative to the current folder, but paths in a plan are relative to the plan's file.
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

// Returns the number of words before --exec, including argv[0]. am-run parses only these words; the
// words after --exec belong to the program.
int own_arguments(int argc, char** argv) {
  return static_cast<int>(
      std::find_if(argv, argv + argc,
                   [](const char* word) { return std::string_view(word) == "--exec"; }) -
      argv);
}

// Validates the value of --fault for CLI11: returns an empty string if it is the name of a fault,
// otherwise the error message.
std::string is_fault(const std::string& name) {
  if (am::fault::find(name)) return {};
  std::vector<std::string> names;
  for (const am::fault::Description& each : am::fault::all()) names.emplace_back(each.name);
  return am::cat("unknown fault; legal: ", am::join(names, ", "));
}

std::string program_problem(const Options& options, const CLI::App& app, bool exec) {
  if (!exec) return {};
  if (options.command.empty()) {
    return "--exec: the program is missing; write, e.g., --exec python train.py";
  }
  if (!options.plan.empty()) {
    return am::cat("PLAN (", options.plan,
                   ") and --exec exclude each other: ", "what follows --exec is the program");
  }
  for (const char* flag : {"--set", "--steps", "--resume", "--timeout", "--no-attach",
                           "--attach-at", "--on-failure", "--stopped-status", "--fault"}) {
    if (app.count(flag) > 0)
      return am::cat(flag, ": this option works only with a PLAN, not with a program");
  }
  return {};
}

std::string is_on_failure(const std::string& text) {
  if (am::job::parse_on_failure(text)) return {};
  return "legal: end, hold, hold=MINUTES or dump";
}

std::string is_tcp_address(const std::string& text) {
  try {
    am::control::parse_tcp(text);
    return {};
  } catch (const am::Error& error) {
    return am::cat(error.what(), ": ", error.hint());
  }
}

// Returns an error message if --rdzv is invalid, or if --nnodes, --node-rank and --rdzv contradict
// each other. Returns an empty string otherwise. CLI11 cannot check these conditions.
std::string rendezvous_problem(const Options& options) {
  if (!options.rdzv.empty() && !is_host_and_port(options.rdzv)) {
    return "--rdzv: write HOST:PORT, e.g. node0:29500";
  }
  if (options.nnodes > 1 && options.rdzv.empty()) {
    return "--nnodes: several machines need --rdzv HOST:PORT";
  }
  if (options.node_rank >= options.nnodes) return "--node-rank: must be below --nnodes";
  return {};
}

int complain(const std::string& problem) {
  std::cerr << "am-run: error: " << am::term::echo(problem) << "\n";
  return am_apps::kUnusable;
}

}  // namespace

void add_run_dir(CLI::App& app, Options& options) {
  app.add_option("--run-dir", options.run_dir,
                 "The run folder (default: runs/NAME-OF-PLAN-OR-PROGRAM)")
      ->type_name("DIR");
}

void add_placement(CLI::App& app, Options& options) {
  app.add_option("--nproc", options.nproc, "Ranks on this machine (default: the plan's)")
      ->check(am_apps::integer_from(1));
  app.add_option("--nnodes", options.nnodes, "Machines")->check(am_apps::integer_from(1));
  app.add_option("--node-rank", options.node_rank, "Number of this machine, from 0")
      ->check(am_apps::integer_from(0));
  app.add_option("--rdzv", options.rdzv, "HOST:PORT of machine 0, for several machines");
  app.add_option("--ranks-per-gpu", options.ranks_per_gpu,
                 "Number of ranks that may share a GPU (default: 1; more need NCCL 2.30 or newer)")
      ->check(am_apps::integer_from(1));
}

bool placement_is_possible(const CLI::App& app, Options& options) {
  for (const char* flag : {"--nproc", "--nnodes", "--node-rank", "--rdzv", "--max-restarts"}) {
    const CLI::Option* option = app.get_option_no_throw(flag);
    if (option != nullptr && option->count() > 0) options.placement.emplace_back(flag);
  }
  const std::string problem = rendezvous_problem(options);
  if (!problem.empty()) complain(problem);
  return problem.empty();
}

bool is_host_and_port(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  const std::string host = text.substr(0, colon);
  const auto port = am::parse_integer(text.substr(colon + 1));
  const bool opens = host.find('[') != std::string::npos;
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return !host.empty() && opens == in_brackets && port && *port > 0 && *port <= 65535;
}

std::pair<std::string, int> host_and_port(const std::string& rdzv) {
  const size_t colon = rdzv.rfind(':');
  std::string host = rdzv.substr(0, colon);
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  return {host, std::stoi(rdzv.substr(colon + 1))};
}

std::optional<Options> parse_options(int argc, char** argv,
                                     const std::function<std::string()>& libraries, int& status) {
  Options options;
  const int own = own_arguments(argc, argv);
  const bool exec = own < argc;
  if (exec) options.command.assign(argv + own + 1, argv + argc);
  am_apps::CommonFlags flags;
  std::vector<std::string> sets;
  std::string resume;
  std::string attach_at;
  std::string on_failure = "end";
  int64_t steps = 0;
  CLI::App app(kRunDescription, "am-run");
  app.add_option("PLAN", options.plan, "The plan file (TOML)")->required(!exec);
  am_apps::add_set(app, sets);
  add_run_dir(app, options);
  app.add_option("--exec", options.command, kExecHelp)->type_name("PROGRAM ARGS...");
  app.add_option("--steps", steps, "Train to this step (train.max_steps)")
      ->check(am_apps::integer_from(1));
  app.add_option("--resume", resume,
                 "auto: the newest complete checkpoint of the run folder; none: start a new run; "
                 "or a checkpoint")
      ->take_last();  // a restart appends a second --resume, and the last one counts
  app.add_option("--max-restarts", options.max_restarts,
                 "Restart all ranks after a failure, at most N times, from the newest checkpoint "
                 "of this job (default: 0)")
      ->check(am_apps::integer_from(0));
  add_placement(app, options);
  app.add_option("--timeout", options.timeout_seconds,
                 "Seconds that a rank waits for its peers in a collective (default: the plan's "
                 "runtime.timeout_minutes, 10 minutes)")
      ->check(am_apps::integer_from(1));
  auto* no_attach =
      app.add_flag("!--no-attach", options.attach,
                   "Do not allow attaching to the job: no socket in the run folder's control/");
  app.add_option("--attach-at", attach_at,
                 "Let am-repl also attach over TCP, with the token in RUN/control/token; port 0 is "
                 "any free port, HOST is this machine (127.0.0.1) by default")
      ->type_name("[HOST:]PORT")
      ->check(is_tcp_address)
      ->excludes(no_attach);
  app.add_option(
         "--on-failure", on_failure,
         "Action after a loss or gradients that are not finite. end: end the job; hold: "
         "wait for MINUTES (60), or until `continue` in am-repl, which can attach meanwhile; "
         "dump: write the state to RUN/failure/step-N (default: end)")
      ->type_name("end|hold[=MINUTES]|dump")
      ->check(is_on_failure);
  app.add_option(
         "--stopped-status", options.stopped_status,
         "Exit status of a job that a signal or train.max_time stopped before its last step, "
         "e.g. 75 for a script that requeues it (default: 0)")
      ->check(CLI::Range(0, 255));
  app.add_flag("--force", options.force,
               "Start ranks that need more memory than this machine has available");
  auto* dry_run = app.add_flag("--dry-run", options.dry_run,
                               "Run one step of a rank on the meta device, in a simulated world, "
                               "and print its memory and its collectives; a program of --exec "
                               "runs on the host, as one rank of --nproc");
  app.add_option("--rank", options.rank, "The rank of --dry-run (default: 0)")
      ->check(am_apps::integer_from(0))
      ->needs(dry_run);
  app.add_flag("--verify-layout", options.verify_layout,
               "Train a small model under the plan's layout in this process, and compare it with "
               "one rank")
      ->excludes(dry_run);
  app.add_option(
         "--fault", options.fault,
         "Inject this bug (tp_input_sum, ...), to test that --verify-layout or another check of a "
         "training job finds it")
      ->check(is_fault)
      ->excludes(dry_run);
  am_apps::add_plugins(app, flags);
  am_apps::add_json(app, flags, "One JSON object about the finished job on stdout");
  am_apps::add_color(app, flags);
  app.set_version_flag("--version",
                       [&] { return am::cat("am-run ", AM_VERSION, "\n", libraries()); });
  if (const auto ended = am_apps::parse(app, own, argv)) {
    status = *ended;
    return std::nullopt;
  }
  std::string problem = program_problem(options, app, exec);
  if (problem.empty() && !options.attach && am::starts_with(on_failure, "hold")) {
    problem = "--on-failure hold: am-repl could not attach, because of --no-attach";
  }
  if (!problem.empty() || !placement_is_possible(app, options)) {
    if (!problem.empty()) complain(problem);
    status = am_apps::kUnusable;
    return std::nullopt;
  }
  options.on_failure = am::job::parse_on_failure(on_failure).value_or(am::job::OnFailure{});
  options.overrides = am_apps::overrides_of(sets);
  options.steps = steps;
  options.timeout_given = app.count("--timeout") > 0;
  if (!attach_at.empty()) options.attach_at = am::control::parse_tcp(attach_at);
  if (steps > 0) options.overrides.push_back({am::cat("train.max_steps=", steps)});
  if (!resume.empty()) {
    options.overrides.push_back({"checkpoint.resume=" + quoted(resume_value(resume))});
  }
  options.plugins = flags.plugins();
  options.output = am_apps::Output::of(flags.json, flags.color_mode());
  return options;
}

}  // namespace am_run
