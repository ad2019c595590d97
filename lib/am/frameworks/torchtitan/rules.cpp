// torchtitan's conditions on a layout, from its ParallelDims, trainer, model config and pipeline
// set-up.
//
// Conversion of a plan to torchtitan's config:
//
//   data_parallel_replicate_degree       dp_replicate_size (ddp: all data-parallel ranks)
//   data_parallel_shard_degree           dp_size / dp_replicate_size (ddp: 1); -1 without dp_size
//   local_batch_size                     micro_batch_size * pipeline.microbatches
//   pipeline_parallel_microbatch_size    micro_batch_size
//   pipeline_parallel_layers_per_stage   set if virtual_stages is not the schedule's default
#include <array>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/frameworks/framework_rules.h"

namespace am::frameworks {
namespace {

int64_t replicas(const FrameworkLayout& layout) {
  return layout.ddp ? std::max<int64_t>(1, layout.dp()) : layout.dp_replicate;
}

// Returns data_parallel_shard_degree. If the degree is -1, returns the number of shards that
// torchtitan computes. Returns 0 if dp_replicate does not divide dp_size.
int64_t shards(const FrameworkLayout& layout) {
  if (layout.ddp) return 1;
  if (layout.dp_size == 0) return layout.world / (layout.dp_replicate * layout.replica());
  return layout.dp_size % layout.dp_replicate == 0 ? layout.dp_size / layout.dp_replicate : 0;
}

bool makes_world(const FrameworkLayout& layout) {
  const int64_t product = replicas(layout) * shards(layout) * layout.replica();
  return product > 0 && product == layout.world;
}

void check_world(const FrameworkLayout& layout, Violations& found) {
  if (makes_world(layout)) return;
  std::vector<std::string> help;
  if (layout.dp_size > 0) {
    if (layout.world % layout.replica() == 0) {
      help.push_back(cat("dp_size = ", layout.world / layout.replica()));
    }
    help.push_back(cat("world_size = ", layout.dp_size * layout.replica()));
  } else {
    const int64_t step = layout.replica() * replicas(layout);
    help.push_back(assignment("world_size", nearest_multiples(step, layout.world)));
  }
  found.push_back({layout.dp_size > 0 ? "mesh.dp_size" : "mesh.world_size",
                   cat("dp_replicate * dp_shard * cp * tp * pp = ", replicas(layout), " * ",
                       shards(layout), " * ", layout.cp, " * ", layout.tp, " * ", layout.pp,
                       " is not WORLD_SIZE = ", layout.world),
                   join(help, "; or ")});
}

void check_expert_mesh(const FrameworkLayout& layout, Violations& found) {
  const int64_t ranks = shards(layout) * layout.cp * layout.tp;
  if (!makes_world(layout) || ranks % layout.ep == 0) return;
  found.push_back({"mesh.ep_size",
                   cat("ep_size = ", layout.ep, " does not divide dp_shard * cp * tp = ",
                       shards(layout), " * ", layout.cp, " * ", layout.tp, " = ", ranks),
                   nearest_divisors("ep_size", ranks, layout.ep)});
}

void check_heads(const FrameworkLayout& layout, Violations& found) {
  demand_whole_heads(layout, "n_heads", layout.model->num_attention_heads, found);
}

void check_kv_heads(const FrameworkLayout& layout, Violations& found) {
  demand_whole_heads(layout, "n_kv_heads", layout.model->num_key_value_heads, found);
}

void check_seq_len(const FrameworkLayout& layout, Violations& found) {
  const int64_t divisor =
      (layout.sequence_parallel ? layout.tp : 1) * (layout.cp > 1 ? 2 * layout.cp : 1);
  if (layout.seq_len % divisor == 0) return;
  found.push_back(
      {"train.seq_len",
       cat("seq_len = ", layout.seq_len, " is not divisible by ", divisor,
           " (tp_size under sequence parallelism, times 2 * cp_size under context parallelism)"),
       assignment("seq_len", nearest_multiples(divisor, layout.seq_len))});
}

void check_max_seq_len(const FrameworkLayout& layout, Violations& found) {
  const int64_t longest = layout.model->max_position_embeddings;
  if (layout.seq_len <= longest) return;
  found.push_back({"train.seq_len",
                   cat("seq_len = ", layout.seq_len, " is more than max_seq_len = ", longest),
                   cat("seq_len = ", longest, " or less")});
}

void check_batch(const FrameworkLayout& layout, Violations& found) {
  if (!makes_world(layout)) return;
  demand_whole_batches(layout, layout.local_batch() * replicas(layout) * shards(layout), found);
}

// Checks the number of stages. Without layers_per_stage, a rank has torchtitan's default number of
// stages (1 or 2). For more stages per rank, layers_per_stage must be set. torchtitan then computes
// the number of stages from layers_per_stage, and the result must equal the plan's number.
void check_stages(const FrameworkLayout& layout, Violations& found) {
  if (layout.pp == 1 || layout.split_points) return;
  const int64_t weights = layout.model->num_hidden_layers + 2;
  const int64_t stages = layout.stages();
  if (stages > weights) {
    found.push_back(
        {"mesh.pp_size",
         cat(stages, " stages are too many for ", layout.model->num_hidden_layers,
             " layers + 2 (the embedding and the head)"),
         cat("pp_size = ", std::max<int64_t>(1, weights / layout.pipeline.virtual_stages),
             " or less")});
    return;
  }
  if (layout.pipeline.virtual_stages <= 2) return;
  const int64_t per_stage = (weights + stages - 1) / stages;
  const int64_t counted = (weights + per_stage - 1) / per_stage;
  if (counted == stages) return;
  std::vector<int64_t> legal;
  for (int64_t each = 2; layout.pp * each <= weights; ++each) {
    const int64_t length = (weights + layout.pp * each - 1) / (layout.pp * each);
    if (each == 2 || (weights + length - 1) / length == layout.pp * each) legal.push_back(each);
  }
  found.push_back(
      {"pipeline.virtual_stages",
       cat("with layers_per_stage = ", per_stage, ", the ", weights,
           " layers (embedding and head included) make ", counted, " stages, not ", stages),
       assignment("virtual_stages", nearest_values(legal, layout.pipeline.virtual_stages))});
}

constexpr std::array<FrameworkRule, 12> kRules = {{
    framework_rule("torchtitan.strategy", "torchtitan: there is no strategy megatron",
                   "Parameters are sharded by FSDP2 or replicated. A distributed optimizer, which "
                   "shards only its states, is Megatron's.",
                   check_not_megatron),
    framework_rule(
        "torchtitan.world_size", "torchtitan: dp_replicate * dp_shard * cp * tp * pp == WORLD_SIZE",
        "ParallelDims multiplies the five degrees. data_parallel_shard_degree = -1 "
        "(dp_size left out) is the world size divided by the product of the others, rounded "
        "down, so a world that they do not divide fails here too.",
        check_world),
    framework_rule("torchtitan.expert_mesh", "torchtitan: (dp_shard * cp * tp) % ep == 0",
                   "Experts are laid over a mesh (pp, dp_replicate, efsdp, ep) of the same "
                   "ranks, efsdp = dp_shard * cp * tp / ep. Replicas are not among the ranks "
                   "that ep may use, unlike in NeMo AutoModel.",
                   check_expert_mesh),
    framework_rule("torchtitan.experts", "torchtitan: num_experts % ep == 0",
                   "The token dispatcher assumes num_experts / ep experts on each rank, and "
                   "divides the list of tokens per expert into ep parts of equal length. Only "
                   "some dispatchers check at start-up that ep divides num_experts; the others "
                   "fail in the first step.",
                   check_even_experts),
    framework_rule("torchtitan.heads", "torchtitan: n_heads % tp == 0",
                   "The model config refuses a tensor_parallel_degree that does not divide "
                   "the query heads, before the model is built.",
                   check_heads, Reads::kModel),
    framework_rule("torchtitan.kv_heads", "torchtitan: n_kv_heads % tp == 0",
                   "The model config refuses a tensor_parallel_degree that does not divide "
                   "the key/value heads; they are not replicated.",
                   check_kv_heads, Reads::kModel),
    framework_rule("torchtitan.seq_len",
                   "torchtitan: seq_len % ((tp if sequence parallel) * (2 * cp if cp > 1)) "
                   "== 0",
                   "The trainer multiplies both divisors: context parallelism cuts the "
                   "sequence into 2 * cp chunks, and sequence parallelism cuts each rank's "
                   "part into tp chunks. The product is stricter than their least common multiple.",
                   check_seq_len),
    framework_rule("torchtitan.max_seq_len", "torchtitan: seq_len <= the model's max_seq_len",
                   "The rotary table is made for the training length, and the model config "
                   "refuses a length beyond what the model was made for.",
                   check_max_seq_len, Reads::kModel),
    framework_rule("torchtitan.batch",
                   "torchtitan: global_batch_size % (local_batch_size * dp) == 0",
                   "local_batch_size is the number of sequences that a data-parallel rank takes at "
                   "a time: with a pipeline all its micro-batches, micro_batch_size * "
                   "pipeline.microbatches, otherwise micro_batch_size. dp is dp_replicate * "
                   "dp_shard.",
                   check_batch),
    framework_rule("torchtitan.tied",
                   "torchtitan: weight tying is not supported with pipeline parallelism",
                   "The embedding is on the first stage and the head on the last; the model "
                   "config raises NotImplementedError.",
                   check_tied, Reads::kModel),
    framework_rule(
        "torchtitan.schedule",
        "torchtitan: torch's pipeline schedule accepts the number of stages and of micro-batches",
        "torchtitan runs torch.distributed.pipelining's schedules, whose constructors "
        "check the number of stages per rank and of micro-batches. `am-plan explain "
        "pp.schedule` describes the limits.",
        check_torch_schedule),
    framework_rule("torchtitan.stages",
                   "torchtitan: ceil((layers + 2) / layers_per_stage) == pp * stages per "
                   "rank, and at most layers + 2",
                   "The embedding and the head count as a layer each. By default a rank has one "
                   "stage, or two under schedules that need several; the number of stages can then "
                   "be any number up to layers + 2. More stages are requested by layers_per_stage, "
                   "from which torchtitan computes their number, so not every number is possible.",
                   check_stages, Reads::kModel),
}};

}  // namespace

std::span<const FrameworkRule> torchtitan_rules() { return kRules; }

}  // namespace am::frameworks
