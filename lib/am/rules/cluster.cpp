// Rules on the section [cluster]: the machine that predictions assume.
#include <array>

#include "am/base/text.h"
#include "am/cluster/hardware.h"
#include "am/cluster/implementation.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

void check_gpu(const RuleContext& context, Diagnostics& found) {
  const std::string& name = context.plan.cluster.gpu;
  if (name.empty()) return;
  cluster::find_gpu(name, context.plan.resolve("."), context.plan.span("cluster.gpu"), found);
}

void check_implementation(const RuleContext& context, Diagnostics& found) {
  const std::string& name = context.plan.cluster.implementation;
  if (cluster::find_implementation(name) != nullptr) return;
  const std::vector<std::string> known = cluster::implementation_names();
  const auto near = nearest(name, known);
  found.error("cluster.implementation", context.plan.span("cluster.implementation"),
              cat("no implementation is called \"", name, "\""),
              cat(near ? cat("did you mean \"", *near, "\"? ") : std::string(),
                  "known: ", join(known, ", ")));
}

void check_nodes(const RuleContext& context, Diagnostics& found) {
  const int64_t nodes = context.plan.cluster.nodes;
  if (context.mesh == nullptr || nodes == 0) return;
  const int64_t world = context.mesh->world_size();
  const int64_t per_node = context.plan.mesh.ranks_per_node;
  if (nodes * per_node >= world) return;
  found.warning("cluster.nodes", context.plan.span("cluster.nodes"),
                cat("nodes = ", nodes, " with ranks_per_node = ", per_node, " have room for ",
                    nodes * per_node, " ranks, but the plan has ", world),
                cat("nodes = ", (world + per_node - 1) / per_node,
                    " or more, or 0 (as many as the ranks need)"));
}

void check_failures(const RuleContext& context, Diagnostics& found) {
  const config::ClusterSection& cluster = context.plan.cluster;
  const bool rate = cluster.hours_between_failures > 0.0;
  if (rate == (cluster.storage_gb_per_s > 0.0)) return;
  const char* given = rate ? "cluster.hours_between_failures" : "cluster.storage_gb_per_s";
  found.warning("cluster.failures", context.plan.span(given),
                cat("without ", rate ? "storage_gb_per_s" : "hours_between_failures",
                    " no goodput is predicted"),
                "set both keys; in Llama 3's training hours_between_failures was 50700");
}

constexpr std::array<Rule, 8> kRules = {{
    {.id = "cluster.gpu",
     .summary = "[cluster] gpu is a known GPU, or a file that describes one",
     .explain =
         "Predictions of time need the GPU's peak FLOP/s, its memory bandwidth and the "
         "bandwidth of its links. The known GPUs are the files of plans/clusters. For "
         "another machine, write a file of the same form and name it: gpu = \"./mine.toml\".",
     .needs = Needs::kFiles,
     .check = check_gpu},
    {.id = "cluster.key",
     .summary = "a cluster's file has the keys of plans/clusters/h100-sxm.toml",
     .explain = "A misspelt key would leave a value at its default, and the prediction would be "
                "for another machine.",
     .check = nullptr},
    {.id = "cluster.implementation",
     .summary = "[cluster] implementation is one whose kernels and memory are known",
     .explain =
         "How much time and memory the same layout takes depends on the framework that runs it: "
         "which operators are fused, which communication overlaps, which tensors are saved for "
         "backward. The constants of each implementation come from its published runs; those of "
         "automesh follow from its own operators.",
     .check = check_implementation},
    {.id = "cluster.calibration",
     .summary = "[cluster] calibration is a file that scripts/calibrate wrote",
     .explain = "`scripts/calibrate ROWS.csv -o mine.toml` fits the constants of the time model to "
                "runs of a cluster; calibration = \"mine.toml\" predicts with them.",
     .check = nullptr},
    {.id = "cluster.nodes",
     .summary = "the cluster's nodes have room for the plan's ranks (a warning)",
     .explain = "[cluster] nodes times [mesh] ranks_per_node is the number of GPUs that are "
                "assumed. 0 means as many nodes as the ranks need.",
     .check = check_nodes},
    {.id = "cluster.failures",
     .summary = "hours_between_failures and storage_gb_per_s are given together (a warning)",
     .explain = "[cluster] hours_between_failures is the mean time between two failures of the "
                "same GPU, as far as they end a job: if 16,384 GPUs together have a failure every "
                "3.1 hours, it is about 50,800. storage_gb_per_s is the rate at which all ranks "
                "together write "
                "checkpoints. From these two keys, and from restart_minutes and the predicted step "
                "time, `am-plan cost` predicts the goodput: the share of a job's time that "
                "failures, restarts and saves leave for training. It also names the "
                "checkpoint.every with the highest goodput.",
     .check = check_failures},
    {.id = "predict.range",
     .summary = "a plan's predicted time and memory are in range",
     .explain = "The product of sizes that are legal one by one can be too large to represent, for "
                "example micro-batches of 2^20 sequences of 2^27 tokens for a model with 405 "
                "billion parameters. Time and memory of such a plan are not predicted.",
     .check = nullptr},
    {.id = "csv.syntax",
     .summary = "a table of measured runs is well-formed CSV with a header",
     .explain = "The columns are those of plans/measured/runs.csv, in any order; a cell with a "
                "comma in it is quoted.",
     .check = nullptr},
}};

}  // namespace

std::span<const Rule> cluster_rules() { return kRules; }

}  // namespace am::rules
