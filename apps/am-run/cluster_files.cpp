#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/config/backend.h"
#include "am/frameworks/words.h"
#include "am/job/job.h"
#include "am/layout/backend_choice.h"
#include "common/command_line.h"
#include "common/output.h"
#include "job.h"
#include "job/options.h"
#include "job/plan_file.h"

namespace am_run {

namespace {

using namespace am;
using frameworks::shell_word;

constexpr const char* kFilesDescription =
    "Writes the file that starts a plan's launchers on a cluster: one am-run per node, which "
    "starts the node's ranks and restarts them after a failure. After a preemption, the cluster "
    "starts the job again.\n\n"
    "Examples:\n"
    "  am-run files plan.toml --slurm -o job.sh && sbatch job.sh\n"
    "  am-run files plan.toml --jobset --image registry/automesh:1 | kubectl apply -f -";

// Exit status of a job that a signal or train.max_time stopped before its last step. The cluster
// requeues a job that exits with this status. The value is EX_TEMPFAIL of sysexits.h.
constexpr int kRequeue = 75;
// Seconds from SIGTERM until Slurm's time limit, or until Kubernetes kills the pod. In this time,
// the job finishes its step and saves a checkpoint.
constexpr int kGraceSeconds = 300;
constexpr int kRendezvousPort = 29500;

struct FilesOptions {
  Options job;
  bool slurm = false;
  bool jobset = false;
  std::string image = "automesh:latest";
  std::string claim = "training";
  std::string output;  // file to write; empty: stdout
  bool force = false;
};

struct ClusterJob {
  std::string name;
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  bool gpus = true;                  // ask the cluster for one GPU per rank
  std::vector<std::string> command;  // am-run's command line without --node-rank and --rdzv
};

std::string shell_line(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return join(quoted, " ");
}

// Converts the text to a name that Slurm and DNS accept: a lower-case letter, followed by
// lower-case letters, digits and single dashes. Shortens the name to 40 characters. If the name is
// then empty or begins with a digit, adds the prefix "am-".
std::string cluster_name(const std::string& text) {
  constexpr size_t kLongest = 40;
  std::string name;
  for (const char c : text) {
    const bool kept = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (kept) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!kept && !name.empty() && name.back() != '-') name += '-';
  }
  name = name.substr(0, kLongest);
  while (!name.empty() && name.back() == '-') name.pop_back();
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0) {
    name = "am-" + name;
  }
  return name;
}

ClusterJob cluster_job(const FilesOptions& options, const job::Job& job,
                       const std::vector<std::string>& sets) {
  const int64_t world = job.layout.mesh.world_size();
  ClusterJob cluster;
  cluster.name = cluster_name(std::filesystem::path(options.job.plan).stem().string());
  cluster.ranks_per_node = std::min(world, job.plan.mesh.ranks_per_node);
  if (world % cluster.ranks_per_node != 0) {
    throw Error(ErrorKind::kPlan,
                cat("the plan's ", world, " ranks cannot be divided into nodes of ",
                    cluster.ranks_per_node, " evenly"),
                "mesh.ranks_per_node must divide mesh.world_size");
  }
  cluster.nodes = world / cluster.ranks_per_node;
  cluster.gpus = !config::computes_on_host(layout::asked_backend(job.plan));
  cluster.command = {"am-run", std::filesystem::absolute(options.job.plan).lexically_normal()};
  for (const std::string& set : sets) cluster.command.push_back(cat("--set=", set));
  cluster.command.push_back(cat("--run-dir=", run_root(options.job).lexically_normal().string()));
  cluster.command.push_back(cat("--max-restarts=", options.job.max_restarts));
  cluster.command.push_back(cat("--stopped-status=", kRequeue));
  if (options.job.plugins == config::Plugins::kAllowed) {
    cluster.command.emplace_back("--allow-plugins");
  }
  if (cluster.nodes > 1) cluster.command.push_back(cat("--nnodes=", cluster.nodes));
  return cluster;
}

std::string slurm_file(const ClusterJob& job) {
  std::string text = cat("#!/bin/bash\n#SBATCH --job-name=", job.name,
                         "\n#SBATCH --nodes=", job.nodes, "\n#SBATCH --ntasks-per-node=1\n");
  if (job.gpus) text += cat("#SBATCH --gpus-per-node=", job.ranks_per_node, "\n");
  text +=
      cat("#SBATCH --exclusive\n",
          "# Before the time limit the launchers get SIGTERM: the job saves and ends with status ",
          kRequeue, ".\n#SBATCH --signal=TERM@", kGraceSeconds,
          "\n#SBATCH --requeue\n#SBATCH --open-mode=append\n\nset -u\n");
  std::string launcher = shell_line(job.command);
  if (job.nodes > 1) {
    text += cat("head=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n",
                "# Jobs that share a node need ports of their own.\n",
                "export AM_JOB_RDZV=\"$head:$((20000 + SLURM_JOB_ID % 10000))\"\n");
    launcher += " --node-rank=\"$SLURM_NODEID\" --rdzv=\"$AM_JOB_RDZV\"";
  }
  // Each task of srun is a launcher. With --kill-on-bad-exit=0, srun does not kill the other
  // launchers when one launcher fails, so they can stop their ranks and report the cause. srun
  // returns the largest exit status of its tasks.
  text += cat("status=0\nsrun --kill-on-bad-exit=0 bash -c ", shell_word("exec " + launcher),
              " || status=$?\nif [ \"$status\" -eq ", kRequeue,
              " ]; then\n  scontrol requeue \"$SLURM_JOB_ID\"\nfi\nexit \"$status\"\n");
  return text;
}

// Returns the text as a YAML scalar in double quotes. Every JSON string is a valid YAML scalar.
std::string yaml_text(const std::string& text) { return dump_json(Json(text), -1); }

std::string jobset_file(const ClusterJob& job, const FilesOptions& options) {
  std::string launcher = shell_line(job.command);
  if (job.nodes > 1) {
    launcher += cat(" --node-rank=\"$JOB_COMPLETION_INDEX\" --rdzv=", job.name, "-node-0-0.",
                    job.name, ":", kRendezvousPort);
  }
  const std::string folder = std::filesystem::current_path().string();
  std::string text = cat(
      "# The plan, its data and the run folder are below the mount path, in a volume that all "
      "nodes share.\n"
      "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata:\n  name: ",
      job.name,
      "\nspec:\n  network:\n    enableDNSHostnames: true\n  failurePolicy:\n    maxRestarts: ",
      options.job.max_restarts,
      "\n    rules:\n"
      "    # A job that was stopped after saving is started again; this is not a failure.\n"
      "    - name: stopped\n"
      "      action: RestartJobSetAndIgnoreMaxRestarts\n"
      "      onJobFailureReasons: [PodFailurePolicy]\n"
      "  replicatedJobs:\n  - name: node\n    replicas: 1\n    template:\n      spec:\n"
      "        completionMode: Indexed\n        completions: ",
      job.nodes, "\n        parallelism: ", job.nodes,
      "\n        backoffLimit: 0\n        podFailurePolicy:\n          rules:\n"
      "          - action: FailJob\n            onExitCodes:\n              containerName: am-run\n"
      "              operator: In\n              values: [",
      kRequeue,
      "]\n        template:\n          spec:\n            restartPolicy: Never\n"
      "            terminationGracePeriodSeconds: ",
      kGraceSeconds, "\n            containers:\n            - name: am-run\n              image: ",
      yaml_text(options.image), "\n              workingDir: ", yaml_text(folder),
      "\n              command: [bash, -c, ", yaml_text("exec " + launcher), "]\n");
  if (job.nodes > 1)
    text += cat("              ports:\n              - containerPort: ", kRendezvousPort, "\n");
  if (job.gpus) {
    text +=
        cat("              resources:\n                limits:\n                  nvidia.com/gpu: ",
            job.ranks_per_node, "\n");
  }
  text += cat(
      "              volumeMounts:\n              - name: training\n                mountPath: ",
      yaml_text(folder),
      "\n              - name: memory\n                mountPath: /dev/shm\n"
      "            volumes:\n            - name: training\n              persistentVolumeClaim:\n"
      "                claimName: ",
      yaml_text(options.claim),
      "\n            # Ranks of a node share memory here; a container's default is 64 MiB.\n"
      "            - name: memory\n              emptyDir:\n                medium: Memory\n");
  return text;
}

int write_files(const FilesOptions& options, const std::vector<std::string>& sets) {
  Diagnostics found;
  const auto job = open_job(options.job, 0, nullptr, found);
  found.sort();
  if (!job) return am_apps::refuse(found, options.job.output);
  am_apps::print_diagnostics(found, options.job.output);
  const ClusterJob cluster = cluster_job(options, *job, sets);
  const std::string text = options.slurm ? slurm_file(cluster) : jobset_file(cluster, options);
  am_apps::write_or_print(text, options.output, options.force);
  return am_apps::kFine;
}

}  // namespace

int run_files(int argc, char** argv) {
  FilesOptions options;
  options.job.max_restarts = 3;
  am_apps::CommonFlags flags;
  std::vector<std::string> sets;
  CLI::App app(kFilesDescription, "am-run files");
  app.add_option("PLAN", options.job.plan, "The plan file (TOML)")->required();
  auto* slurm = app.add_flag("--slurm", options.slurm, "A script for sbatch");
  auto* jobset = app.add_flag("--jobset", options.jobset, "A JobSet for Kubernetes");
  slurm->excludes(jobset);
  am_apps::add_set(app, sets);
  add_run_dir(app, options.job);
  app.add_option("--max-restarts", options.job.max_restarts,
                 "Restarts after a failure (default: 3)")
      ->check(am_apps::integer_from(0));
  app.add_option("--image", options.image,
                 "The container image that has am-run (default: automesh:latest)")
      ->needs(jobset);
  app.add_option("--claim", options.claim,
                 "The persistent volume claim to mount at the current folder (default: training)")
      ->needs(jobset);
  app.add_option("-o,--output", options.output, "Write the file here")->type_name("FILE");
  app.add_flag("--force", options.force, "Overwrite an existing file");
  am_apps::add_plugins(app, flags);
  am_apps::add_color(app, flags);
  if (const auto ended = am_apps::parse(app, argc, argv)) return *ended;
  options.job.overrides = am_apps::overrides_of(sets);
  options.job.plugins = flags.plugins();
  options.job.output = am_apps::Output::of(false, flags.color_mode());
  return am_apps::guarded("am-run files", options.job.output, [&] {
    if (!options.slurm && !options.jobset) {
      throw Error(ErrorKind::kUsage, "choose the kind of file: add --slurm or --jobset");
    }
    return write_files(options, sets);
  });
}

}  // namespace am_run
