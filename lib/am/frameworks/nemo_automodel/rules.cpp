// NeMo AutoModel's conditions on a layout, from its device meshes, recipe, parallelizer and
// pipeline set-up.
//
// The conditions apply to the recipe that corresponds to the plan. Keys of the recipe's section
// `distributed` have the same names as in the plan. step_scheduler.local_batch_size is
// micro_batch_size * pipeline.microbatches, and pp_microbatch_size is micro_batch_size. For a plan
// with more than two virtual_stages, layers_per_stage is ceil(layers / stages).
#include <algorithm>
#include <array>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/frameworks/framework_rules.h"

namespace am::frameworks {
namespace {

// Returns the number of ranks that work on the same sequences: tp * cp * pp. Under megatron_fsdp,
// returns tp * cp, because AutoModel's mesh for Megatron-FSDP has no pipeline axis.
int64_t non_dp(const FrameworkLayout& layout) {
  return layout.megatron_fsdp != nullptr ? layout.tp * layout.cp : layout.replica();
}

// Returns AutoModel's data-parallel size: under ddp, the number of ranks; otherwise the plan's
// dp_size. For a plan without dp_size, returns the number of ranks divided by non_dp(), or 0 if the
// quotient is not an integer.
int64_t data_parallel(const FrameworkLayout& layout) {
  if (layout.ddp) return layout.world;
  if (layout.dp_size > 0) return layout.dp_size;
  return layout.world % non_dp(layout) == 0 ? layout.world / non_dp(layout) : 0;
}

void refuse(const char* strategy, const char* key, int64_t size, const char* what,
            Violations& found) {
  if (size == 1) return;
  found.push_back({cat("mesh.", key),
                   cat(strategy, " does not support ", what, ", but ", key, " = ", size),
                   cat(key, " = 1, or strategy name = \"fsdp2\"")});
}

void check_strategy(const FrameworkLayout& layout, Violations& found) {
  if (layout.fsdp2()) return;
  if (layout.megatron != nullptr) return check_not_megatron(layout, found);
  const char* name = layout.ddp ? "ddp" : "megatron_fsdp";
  if (layout.ddp) {
    refuse(name, "tp_size", layout.tp, "tensor parallelism", found);
    refuse(name, "cp_size", layout.cp, "context parallelism", found);
  }
  refuse(name, "pp_size", layout.pp, "pipeline parallelism", found);
  refuse(name, "ep_size", layout.ep, "expert parallelism", found);
}

void check_hsdp(const FrameworkLayout& layout, Violations& found) {
  if (layout.fsdp2() || layout.megatron != nullptr || layout.dp_replicate == 1) return;
  found.push_back({"mesh.dp_replicate_size",
                   cat("dp_replicate_size = ", layout.dp_replicate, " is supported only by fsdp2"),
                   "dp_replicate_size = 1, or strategy name = \"fsdp2\""});
}

void check_world(const FrameworkLayout& layout, Violations& found) {
  if (data_parallel(layout) > 0) return;
  const int64_t step = non_dp(layout);
  found.push_back({"mesh.world_size",
                   cat("world_size = ", layout.world, " is not divisible by tp_size * cp_size",
                       layout.megatron_fsdp != nullptr ? "" : " * pp_size", " = ", step),
                   assignment("world_size", nearest_multiples(step, layout.world))});
}

int64_t mesh_ranks(const FrameworkLayout& layout) { return layout.dp_size * non_dp(layout); }

void check_mesh_size(const FrameworkLayout& layout, Violations& found) {
  if (layout.ddp || mesh_ranks(layout) <= layout.world) return;
  found.push_back({"mesh.dp_size",
                   cat("dp_size = ", layout.dp_size, " makes a mesh of ", mesh_ranks(layout),
                       " ranks, but world_size = ", layout.world),
                   "dp_size = 0, to compute it from world_size"});
}

void check_idle_ranks(const FrameworkLayout& layout, Violations& found) {
  if (layout.ddp || layout.dp_size == 0 || mesh_ranks(layout) >= layout.world) return;
  found.push_back({"mesh.dp_size",
                   cat("dp_size = ", layout.dp_size, " makes a mesh of ", mesh_ranks(layout),
                       " ranks, but world_size = ", layout.world),
                   "dp_size = 0, to compute it from world_size"});
}

void check_replicate(const FrameworkLayout& layout, Violations& found) {
  const int64_t dp = data_parallel(layout);
  const int64_t replicas = layout.dp_replicate;
  if (!layout.fsdp2() || dp == 0 || replicas == 1) return;
  if (dp % replicas == 0 && replicas < dp) return;
  std::vector<int64_t> legal = divisors(dp);
  if (legal.size() > 1) legal.pop_back();
  found.push_back(
      {"mesh.dp_replicate_size",
       cat("dp_replicate_size = ", replicas, " must divide dp_size = ", dp, " and be smaller"),
       assignment("dp_replicate_size", nearest_values(legal, replicas))});
}

void check_expert_mesh(const FrameworkLayout& layout, Violations& found) {
  const int64_t ranks = data_parallel(layout) * layout.cp * layout.tp;
  if (!layout.fsdp2() || ranks == 0 || ranks % layout.ep == 0) return;
  found.push_back(
      {"mesh.ep_size",
       cat("ep_size = ", layout.ep, " does not divide dp_size * cp_size * tp_size = ", ranks),
       nearest_divisors("ep_size", ranks, layout.ep)});
}

void check_experts(const FrameworkLayout& layout, Violations& found) {
  if (layout.fsdp2()) check_even_experts(layout, found);
}

void check_heads(const FrameworkLayout& layout, Violations& found) {
  if (!layout.fsdp2()) return;
  demand_whole_heads(layout, "num_attention_heads", layout.model->num_attention_heads, found);
}

void check_kv_heads(const FrameworkLayout& layout, Violations& found) {
  if (!layout.fsdp2()) return;
  demand_whole_heads(layout, "num_key_value_heads", layout.model->num_key_value_heads, found);
}

void check_batch(const FrameworkLayout& layout, Violations& found) {
  demand_whole_batches(layout, layout.local_batch() * data_parallel(layout), found);
}

void check_pipeline_batch(const FrameworkLayout& layout, Violations& found) {
  if (layout.pp == 1 || layout.pipeline.microbatches >= layout.pp) return;
  found.push_back(
      {"pipeline.microbatches",
       cat("microbatches = ", layout.pipeline.microbatches, " is less than pp_size = ", layout.pp),
       cat("microbatches = ", layout.pp, " or more")});
}

void check_stages(const FrameworkLayout& layout, Violations& found) {
  if (layout.pp == 1 || layout.split_points) return;
  const int64_t layers = layout.model->num_hidden_layers;
  const int64_t stages = layout.stages();
  const int64_t each = layout.pipeline.virtual_stages;
  if (stages > layers) {
    found.push_back({"mesh.pp_size", cat(stages, " stages are too many for ", layers, " layers"),
                     cat("pp_size = ", std::max<int64_t>(1, layers / each), " or less")});
    return;
  }
  if (each <= 2) return;
  const int64_t per_stage = (layers + stages - 1) / stages;
  const int64_t counted = (layers + per_stage - 1) / per_stage;
  if (counted == stages) return;
  found.push_back(
      {"pipeline.virtual_stages",
       cat("with layers_per_stage = ", per_stage, ", the ", layers, " layers make ", counted,
           " stages, not ", stages),
       "virtual_stages = 2, or choose a pp_size * virtual_stages that divides the number of "
       "layers"});
}

constexpr std::array<FrameworkRule, 15> kRules = {{
    framework_rule("nemo-automodel.strategy",
                   "NeMo AutoModel: ddp has no tp, pp, cp or ep; megatron_fsdp no pp or ep; "
                   "there is no megatron",
                   "The device mesh is built for a strategy, and refuses the axes that the "
                   "strategy does not have. FSDP2 has all of them.",
                   check_strategy),
    framework_rule("nemo-automodel.hsdp",
                   "NeMo AutoModel: dp_replicate_size > 1 is only supported with FSDP2",
                   "Only FSDP2's mesh has a dp_replicate axis. The size is refused before the "
                   "mesh of another strategy is built.",
                   check_hsdp),
    framework_rule("nemo-automodel.world_size",
                   "NeMo AutoModel: world_size % (tp_size * cp_size * pp_size) == 0, if dp_size "
                   "is not given",
                   "dp_size is computed when it is not given. Under megatron_fsdp the divisor is "
                   "tp_size * cp_size; under ddp there is no mesh.",
                   check_world),
    framework_rule("nemo-automodel.mesh_size",
                   "NeMo AutoModel: the mesh is not larger than the world",
                   "An explicit dp_size is used as it is, and torch's DeviceMesh refuses a mesh "
                   "of more ranks than there are.",
                   check_mesh_size),
    framework_rule("nemo-automodel.idle_ranks",
                   "NeMo AutoModel: an explicit dp_size is not compared with the world (a warning)",
                   "dp_size * tp_size * cp_size * pp_size below world_size passes every check. "
                   "The ranks that are left over are in no mesh: they idle or hang.",
                   check_idle_ranks, Reads::kPlan, Severity::kWarning),
    framework_rule("nemo-automodel.replicate",
                   "NeMo AutoModel: dp_size % dp_replicate_size == 0, and dp_replicate_size == "
                   "1 or < dp_size",
                   "dp_shard is the quotient. With nothing left to shard it would be plain data "
                   "parallelism, which the FSDP2 strategy refuses.",
                   check_replicate),
    framework_rule("nemo-automodel.expert_mesh",
                   "NeMo AutoModel: (dp_size * cp_size * tp_size) % ep_size == 0",
                   "The expert mesh (ep_shard, ep) has all ranks of a pipeline stage, including "
                   "replicas and tensor-parallel ranks.",
                   check_expert_mesh),
    framework_rule("nemo-automodel.experts", "NeMo AutoModel: n_routed_experts % ep_size == 0",
                   "Every rank of an expert-parallel group holds the same number of experts; the "
                   "parallelizer asserts it.",
                   check_experts),
    framework_rule("nemo-automodel.heads", "NeMo AutoModel: num_attention_heads % tp_size == 0",
                   "validate_tp_mesh requires this under FSDP2 before it chooses a TP plan, also "
                   "for TP plans that do not shard attention.",
                   check_heads, Reads::kModel),
    framework_rule(
        "nemo-automodel.kv_heads", "NeMo AutoModel: num_key_value_heads % tp_size == 0",
        "validate_tp_mesh requires this under FSDP2; key/value heads are not replicated, "
        "so tp_size is at most their number.",
        check_kv_heads, Reads::kModel),
    framework_rule("nemo-automodel.batch",
                   "NeMo AutoModel: global_batch_size % (local_batch_size * dp_size) == 0",
                   "The step scheduler's accumulation steps are the quotient. With a pipeline the "
                   "local batch is all of its micro-batches, micro_batch_size * "
                   "pipeline.microbatches.",
                   check_batch),
    framework_rule("nemo-automodel.pipeline_batch",
                   "NeMo AutoModel: pp_batch_size // pp_microbatch_size >= pp_size",
                   "The recipe asserts a micro-batch for each pipeline rank, whatever the "
                   "schedule: fewer would leave ranks idle all through the step.",
                   check_pipeline_batch),
    framework_rule("nemo-automodel.schedule",
                   "NeMo AutoModel: torch's pipeline schedule accepts the number of stages and of "
                   "micro-batches",
                   "AutoModel runs torch.distributed.pipelining's schedules, whose constructors "
                   "check the number of stages per rank and of micro-batches. `am-plan explain "
                   "pp.schedule` describes the limits.",
                   check_torch_schedule),
    framework_rule("nemo-automodel.tied",
                   "NeMo AutoModel: tied embeddings are not supported with pipeline parallelism",
                   "The check of models for the pipeline refuses a head that shares the "
                   "embedding's tensor.",
                   check_tied, Reads::kModel),
    framework_rule("nemo-automodel.stages",
                   "NeMo AutoModel: ceil(layers / layers_per_stage) == pp_size * stages per rank, "
                   "and at most layers",
                   "By default a rank has one stage, or two under schedules that need several. "
                   "More stages are requested by layers_per_stage, from which their number is "
                   "computed, so not every number is possible.",
                   check_stages, Reads::kModel),
}};

}  // namespace

std::span<const FrameworkRule> nemo_automodel_rules() { return kRules; }

}  // namespace am::frameworks
