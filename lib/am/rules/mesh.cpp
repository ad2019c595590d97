// Rules on the sizes of the mesh. resolve_mesh() reports all of them except "mesh.tp_node".
#include <array>

#include "am/base/text.h"
#include "am/cluster/hardware.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

// Whether fast links such as NVLink connect at least `tp` of the plan's GPUs across nodes.
bool is_joined(const config::Plan& plan, int64_t tp) {
  if (plan.cluster.gpu.empty()) return false;
  Diagnostics ignored;  // the rule "cluster.gpu" reports these errors
  const auto gpu = cluster::find_gpu(plan.cluster.gpu, plan.resolve("."), {}, ignored);
  return gpu.has_value() && gpu->link_domain > gpu->gpus_per_node &&
         static_cast<double>(tp) <= gpu->link_domain;
}

void check_tp_node(const RuleContext& context, Diagnostics& found) {
  if (context.mesh == nullptr) return;
  const int64_t tp = context.mesh->tp;
  const int64_t world = context.mesh->world_size();
  const int64_t node = layout::ranks_of_node(context.plan, world);
  if (world <= node || node % tp == 0 || is_joined(context.plan, tp)) return;
  found.warning("mesh.tp_node", context.plan.span("mesh.tp_size"),
                cat("tensor-parallel groups of ", tp, " ranks cross the border of nodes with ",
                    node, " ranks"),
                tp_sizes_help(context, node));
}

constexpr std::array<Rule, 8> kRules = {{
    {.id = "mesh.size",
     .summary = "every mesh size is at least 1, and the world is not absurdly large",
     .explain =
         "The mesh has five axes: pp, dp_replicate, dp_shard, cp and tp, from outer to inner. "
         "An axis that is not used has size 1. dp_size = 0 and world_size = 0 mean \"compute "
         "it\". More than 1 048 576 ranks are treated as a typo.",
     .check = nullptr},
    {.id = "mesh.world",
     .summary = "the number of ranks is known, and agrees with what the launcher starts",
     .explain =
         "The world's size comes from mesh.world_size, from the product of the sizes when dp_size "
         "is given too, or from the launcher. am-run compares the launcher's number with the "
         "plan's: on 8 ranks, a plan for 16 would have another layout and often another batch.\n\n"
         "To plan for several world sizes with one file, leave world_size out and use "
         "`--world-size N` with am-plan; am-run takes the launcher's.",
     .check = nullptr},
    {.id = "mesh.product",
     .summary = "an explicit dp_size makes the product of the sizes equal world_size",
     .explain = "dp_size * tp_size * cp_size * pp_size must be world_size. With a smaller product "
                "some ranks would belong to no group, and idle or hang; with a larger one ranks "
                "are missing.\n\n"
                "Leave dp_size out, or set it to 0, to have it computed.",
     .check = nullptr},
    {.id = "mesh.divide",
     .summary = "tp_size * cp_size * pp_size divides world_size",
     .explain =
         "The ranks that tensor, context and pipeline parallelism do not use are data parallel: "
         "dp_size = world_size / (tp_size * cp_size * pp_size), which must be an integer.",
     .check = nullptr},
    {.id = "mesh.replicate",
     .summary = "dp_replicate_size divides dp_size",
     .explain =
         "Hybrid sharding (HSDP) cuts dp into dp_replicate_size groups, each with a whole copy of "
         "the model sharded over dp_size / dp_replicate_size ranks; gradients are reduced inside a "
         "group by reduce-scatter and between groups by all-reduce. With dp_replicate_size equal "
         "to dp_size nothing is sharded: this is data parallelism with fsdp2's mixed precision, "
         "like torchtitan with only data_parallel_replicate_degree.\n\n"
         "Under \"ddp\" all of dp is replicated, and the key must be 1 (rule hsdp.strategy).",
     .check = nullptr},
    {.id = "mesh.ep",
     .summary = "ep_size divides dp_size * cp_size * tp_size",
     .explain = "Expert parallelism re-uses the ranks of one pipeline stage: they form a mesh "
                "(ep_shard, ep), with ep as the inner axis, so ep_size must divide their number.",
     .check = nullptr},
    {.id = "mesh.etp",
     .summary = "megatron: ep_size * etp_size divides dp_size * cp_size * tp_size",
     .explain = "The ranks of a pipeline stage form a mesh (ep_shard, ep, etp) for experts, with "
                "etp as the inner axis: etp_size ranks share an expert. etp_size equals tp_size "
                "unless it is given.",
     .check = nullptr},
    {.id = "mesh.tp_node",
     .summary = "tensor-parallel groups stay inside one node (a warning)",
     .explain =
         "Tensor parallelism communicates in every layer, twice in forward and twice in backward, "
         "and no computation hides it. Inside a node it runs over NVLink; between nodes the "
         "network is some ten times slower, and the step waits for it.\n\n"
         "tp is the innermost axis, so groups stay inside a node when tp_size divides "
         "mesh.ranks_per_node. Use pp, or more dp_shard, between nodes.",
     .needs = Needs::kFiles,
     .check = check_tp_node},
}};

}  // namespace

std::span<const Rule> mesh_rules() { return kRules; }

}  // namespace am::rules
