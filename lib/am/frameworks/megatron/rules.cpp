// Megatron-LM's conditions on layouts. Megatron checks them in the code of the arguments, the
// parallel state, the transformer config and the schedules.
//
// Conversion of a plan to Megatron's arguments:
//
//   data parallel size                     world / (tp * pp * cp); Megatron has no argument for it
//   num_distributed_optimizer_instances    dp_replicate_size; 1 for the strategy ddp
//   expert_tensor_parallel_size            etp_size; tp_size if etp_size is not set
//   num_virtual_stages_per_pipeline_rank   virtual_stages
//   pipeline layout                        from split_points
//   strategy megatron                      the distributed optimizer, or DDP with zero = 0
//   strategy megatron_fsdp                 --use-megatron-fsdp
//   strategy fsdp2                         the distributed optimizer, not --use-torch-fsdp2, which
//                                          Megatron does not support with a pipeline
#include <array>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/frameworks/framework_rules.h"

namespace am::frameworks {
namespace {

// Returns the data-parallel size, world / (tp * pp * cp); 0 if this quotient is not an integer.
int64_t data_parallel(const FrameworkLayout& layout) {
  return layout.world % layout.replica() == 0 ? layout.world / layout.replica() : 0;
}

// Returns the number of micro-batches per step. Returns 0 if the global batch is not a multiple of
// micro-batch size * data-parallel size.
int64_t micro_batches(const FrameworkLayout& layout) {
  const int64_t one = layout.micro_batch * data_parallel(layout);
  if (one == 0) return 0;
  const int64_t global = layout.global_batch > 0 ? layout.global_batch : one;
  return global % one == 0 ? global / one : 0;
}

void check_world(const FrameworkLayout& layout, Violations& found) {
  const int64_t dp = data_parallel(layout);
  if (dp == 0) {
    found.push_back({"mesh.world_size",
                     cat("world_size = ", layout.world,
                         " is not divisible by tp_size * pp_size * cp_size = ", layout.tp, " * ",
                         layout.pp, " * ", layout.cp, " = ", layout.replica()),
                     assignment("world_size", nearest_multiples(layout.replica(), layout.world))});
  } else if (layout.dp_size > 0 && layout.dp_size != dp) {
    found.push_back({"mesh.dp_size",
                     cat("dp_size = ", layout.dp_size,
                         ", but world_size / (tp_size * pp_size * cp_size) = ", dp),
                     cat("dp_size = ", dp, ", or 0 to compute it")});
  }
}

void check_expert_world(const FrameworkLayout& layout, Violations& found) {
  const int64_t ranks = layout.etp * layout.ep * layout.pp;
  if (layout.world % ranks == 0) return;
  std::string help = assignment("world_size", nearest_multiples(ranks, layout.world));
  const int64_t others = layout.etp * layout.pp;
  if (layout.world % others == 0) {
    help = cat(nearest_divisors("ep_size", layout.world / others, layout.ep), "; or ", help);
  }
  found.push_back({"mesh.ep_size",
                   cat("world_size = ", layout.world, " is not divisible by ",
                       layout.etp == layout.tp ? "tp_size" : "etp_size", " * ep_size * pp_size = ",
                       layout.etp, " * ", layout.ep, " * ", layout.pp, " = ", ranks),
                   help});
}

void check_instances(const FrameworkLayout& layout, Violations& found) {
  const int64_t ranks = data_parallel(layout) * layout.cp;
  if (layout.ddp || ranks == 0 || ranks % layout.dp_replicate == 0) return;
  found.push_back(
      {"mesh.dp_replicate_size",
       cat("dp_replicate_size = ", layout.dp_replicate, " does not divide dp * cp = ", ranks),
       nearest_divisors("dp_replicate_size", ranks, layout.dp_replicate)});
}

void check_batch(const FrameworkLayout& layout, Violations& found) {
  const int64_t one = layout.micro_batch * data_parallel(layout);
  if (one == 0 || layout.global_batch % one == 0) return;
  found.push_back({"train.global_batch_size",
                   cat("global_batch_size = ", layout.global_batch,
                       " is not a multiple of micro_batch_size * dp = ", layout.micro_batch, " * ",
                       data_parallel(layout), " = ", one),
                   assignment("global_batch_size", nearest_multiples(one, layout.global_batch))});
}

// Adds a violation if tp does not divide `size`, the model's size that Megatron calls `name`.
void check_divides(const FrameworkLayout& layout, const char* name, int64_t size,
                   Violations& found) {
  if (size % layout.tp == 0) return;
  found.push_back({"mesh.tp_size",
                   cat("tp_size = ", layout.tp, " does not divide ", name, " = ", size),
                   nearest_divisors("tp_size", size, layout.tp)});
}

void check_heads(const FrameworkLayout& layout, Violations& found) {
  check_divides(layout, "num_attention_heads", layout.model->num_attention_heads, found);
}

void check_query_groups(const FrameworkLayout& layout, Violations& found) {
  const int64_t groups = layout.model->num_key_value_heads;
  if (groups % layout.tp == 0 || layout.tp % groups == 0) return;
  found.push_back({"mesh.tp_size",
                   cat("neither tp_size = ", layout.tp, " nor num_query_groups = ", groups,
                       " divides the other"),
                   nearest_divisors("tp_size", groups, layout.tp)});
}

void check_hidden(const FrameworkLayout& layout, Violations& found) {
  check_divides(layout, "hidden_size", layout.model->hidden_size, found);
}

void check_ffn(const FrameworkLayout& layout, Violations& found) {
  check_divides(layout, "ffn_hidden_size", layout.model->intermediate_size, found);
}

void check_positions(const FrameworkLayout& layout, Violations& found) {
  const int64_t longest = layout.model->max_position_embeddings;
  if (layout.seq_len <= longest) return;
  found.push_back(
      {"train.seq_len",
       cat("seq_len = ", layout.seq_len, " is more than max_position_embeddings = ", longest),
       cat("seq_len = ", longest, " or less")});
}

void check_sequence_needs_tp(const FrameworkLayout& layout, Violations& found) {
  if (!layout.sequence_parallel || layout.tp > 1) return;
  found.push_back({"strategy.sequence_parallel",
                   "sequence_parallel = true needs tp_size > 1, but tp_size = 1",
                   "tp_size = 2 or more, or sequence_parallel = false"});
}

void check_sequence(const FrameworkLayout& layout, Violations& found) {
  if (!layout.sequence_parallel || layout.tp == 1) return;
  const int64_t parts = layout.cp * layout.tp;
  if (layout.seq_len % parts == 0) return;
  found.push_back({"train.seq_len",
                   cat("seq_len / cp_size = ", layout.seq_len, " / ", layout.cp,
                       " is not divisible by tp_size = ", layout.tp),
                   assignment("seq_len", nearest_multiples(parts, layout.seq_len))});
}

void check_context(const FrameworkLayout& layout, Violations& found) {
  if (layout.cp == 1 || layout.seq_len % (2 * layout.cp) == 0) return;
  found.push_back(
      {"train.seq_len",
       cat("seq_len = ", layout.seq_len, " is not divisible by 2 * cp_size = ", 2 * layout.cp),
       assignment("seq_len", nearest_multiples(2 * layout.cp, layout.seq_len))});
}

void check_experts(const FrameworkLayout& layout, Violations& found) {
  if (layout.ep == 1) return;
  const int64_t experts = layout.experts();
  if (experts == 0) {
    found.push_back({"mesh.ep_size", cat("ep_size = ", layout.ep, ", but the model has no experts"),
                     "ep_size = 1"});
  } else if (experts % layout.ep != 0) {
    found.push_back({"mesh.ep_size",
                     cat("ep_size = ", layout.ep, " does not divide the ", experts, " experts"),
                     nearest_divisors("ep_size", experts, layout.ep)});
  }
}

void check_moe_sequence(const FrameworkLayout& layout, Violations& found) {
  if (layout.experts() == 0 || layout.tp == 1 || layout.sequence_parallel) return;
  found.push_back({"mesh.tp_size",
                   cat("experts with tp_size = ", layout.tp, " need sequence_parallel = true"),
                   "sequence_parallel = true, or tp_size = 1"});
}

void check_layers(const FrameworkLayout& layout, Violations& found) {
  if (layout.pp == 1 || layout.split_points) return;
  const int64_t layers = layout.model->num_hidden_layers;
  const int64_t each = layout.pipeline.virtual_stages;
  if (layers % layout.pp != 0) {
    found.push_back({"mesh.pp_size",
                     cat("pp_size = ", layout.pp, " does not divide ", layers, " layers"),
                     nearest_divisors("pp_size", layers, layout.pp)});
  } else if (layers / layout.pp % each != 0) {
    found.push_back({"pipeline.virtual_stages",
                     cat("virtual_stages = ", each, " does not divide the ", layers / layout.pp,
                         " layers of each rank"),
                     nearest_divisors("virtual_stages", layers / layout.pp, each)});
  }
}

void check_interleaved(const FrameworkLayout& layout, Violations& found) {
  if (layout.pipeline.virtual_stages == 1) return;
  if (layout.pp == 1) {
    found.push_back({"pipeline.virtual_stages",
                     cat("virtual_stages = ", layout.pipeline.virtual_stages,
                         " needs pp_size > 1, but pp_size = 1"),
                     "virtual_stages = 1, or pp_size = 2 or more"});
    return;
  }
  const int64_t count = micro_batches(layout);
  if (count == 0 || count % layout.pp == 0) return;
  const int64_t one = layout.micro_batch * data_parallel(layout);
  found.push_back(
      {"train.global_batch_size",
       cat(count, " micro-batches are not a multiple of pp_size = ", layout.pp),
       assignment("global_batch_size", nearest_multiples(one * layout.pp, count * one))});
}

void check_schedule(const FrameworkLayout& layout, Violations& found) {
  const std::string& name = layout.pipeline.schedule;
  if (layout.pp == 1 || name == "1f1b" || name == "interleaved_1f1b") return;
  found.push_back({"pipeline.schedule", cat("Megatron has no schedule \"", name, "\""),
                   "schedule = \"1f1b\", or \"interleaved_1f1b\" with virtual_stages"});
}

void check_meta_device(const FrameworkLayout& layout, Violations& found) {
  const auto* config = layout.megatron_fsdp;
  if (config == nullptr || !config->init_fsdp_with_meta_device) return;
  if (config->zero_dp_strategy != 0) return;
  found.push_back({"strategy.init_fsdp_with_meta_device",
                   "init_fsdp_with_meta_device = true needs shards, but zero_dp_strategy = 0 "
                   "(no_shard) makes none",
                   "zero_dp_strategy = 1, 2 or 3"});
}

void check_overlap(const FrameworkLayout& layout, Violations& found) {
  const auto* config = layout.megatron_fsdp;
  if (config == nullptr || !config->overlap_param_gather || config->overlap_grad_reduce) return;
  found.push_back({"strategy.overlap_param_gather",
                   "overlap_param_gather = true needs overlap_grad_reduce = true",
                   "overlap_grad_reduce = true, or overlap_param_gather = false"});
}

void check_average(const FrameworkLayout& layout, Violations& found) {
  const auto* config = layout.megatron_fsdp;
  if (config == nullptr || !config->average_in_collective) return;
  if (!config->calculate_per_token_loss) return;
  found.push_back({"strategy.average_in_collective",
                   "average_in_collective and calculate_per_token_loss cannot both be true",
                   "set one of them to false"});
}

constexpr std::array<FrameworkRule, 20> kRules = {{
    framework_rule(
        "megatron.world_size", "Megatron: world_size % (tp * pp * cp) == 0, and dp is the quotient",
        "The data parallel size is not an argument: it is world_size divided by the other sizes. "
        "Expert "
        "parallelism is not a factor, although one place in Megatron's documentation says it is.",
        check_world),
    framework_rule("megatron.expert_world", "Megatron: world_size % (etp * ep * pp) == 0",
                   "Experts have a mesh of their own over the same ranks: expert tensor, expert, "
                   "expert data and pipeline parallel. expert_tensor_parallel_size equals tp_size "
                   "unless it is given; the strategy megatron has the key etp_size for it.",
                   check_expert_world),
    framework_rule("megatron.optimizer_instances",
                   "Megatron: (dp * cp) % num_distributed_optimizer_instances == 0",
                   "Each instance of the distributed optimizer shards over one part of the dp * cp "
                   "ranks; the instances are replicas, and dp_replicate_size is their number.",
                   check_instances),
    framework_rule(
        "megatron.batch", "Megatron: global_batch_size % (micro_batch_size * dp) == 0",
        "The number of micro-batches is a quotient that must be an integer. Megatron can "
        "decrease the batch instead, but a plan has no key for that.",
        check_batch),
    framework_rule("megatron.heads", "Megatron: num_attention_heads % tp == 0",
                   "Each query head is on one tensor-parallel rank. The arguments are refused "
                   "before anything is built.",
                   check_heads, Reads::kModel),
    framework_rule("megatron.query_groups",
                   "Megatron: num_query_groups % tp == 0 or tp % num_query_groups == 0",
                   "With more ranks than key/value heads Transformer Engine replicates the heads, "
                   "so that a multiple is legal too, unlike in torchtitan and NeMo AutoModel.",
                   check_query_groups, Reads::kModel),
    framework_rule("megatron.hidden", "Megatron: hidden_size % tp == 0",
                   "Layers are built from exact quotients of the hidden size; nothing is padded "
                   "along it.",
                   check_hidden, Reads::kModel),
    framework_rule("megatron.ffn", "Megatron: ffn_hidden_size % tp == 0",
                   "The feed-forward is cut in exact quotients. Only the vocabulary is padded, to "
                   "a multiple of make_vocab_size_divisible_by * tp.",
                   check_ffn, Reads::kModel),
    framework_rule("megatron.positions", "Megatron: seq_length <= max_position_embeddings",
                   "The arguments are refused for every kind of position embedding, rotary ones "
                   "included.",
                   check_positions, Reads::kModel),
    framework_rule("megatron.sequence_parallel", "Megatron: sequence_parallel needs tp > 1",
                   "The command line switches it off with a warning; a configuration that is "
                   "built in code is refused.",
                   check_sequence_needs_tp, Reads::kPlan, Severity::kWarning),
    framework_rule("megatron.sequence",
                   "Megatron: (seq_length / cp) % tp == 0 with sequence "
                   "parallelism",
                   "Each rank's part of the sequence is scattered over tp in equal pieces. "
                   "Nothing checks it at start-up: the first forward stops with \"First dimension "
                   "of the tensor should be divisible by tensor parallel size\".",
                   check_sequence),
    framework_rule("megatron.context", "Megatron: seq_length % (2 * cp) == 0",
                   "Context parallelism gives each rank an early and a late chunk of the sequence, "
                   "which makes 2 * cp chunks of one length.",
                   check_context),
    framework_rule("megatron.experts", "Megatron: num_experts % ep == 0, and ep > 1 needs experts",
                   "Every rank of an expert-parallel group holds the same number of experts. In a "
                   "dense model the group would be unused.",
                   check_experts, Reads::kModel),
    framework_rule(
        "megatron.moe_sequence",
        "Megatron: a model with experts and tp > 1 needs sequence parallelism",
        "Without it every tensor-parallel rank routes every token. The configuration only "
        "warns; the first training forward raises ValueError.",
        check_moe_sequence),
    framework_rule("megatron.layers",
                   "Megatron: num_layers % pp == 0, and layers per rank % virtual stages == 0",
                   "Without explicit counts or a layout every stage has the same number of layers. "
                   "split_points in a plan are an explicit layout, which may be uneven.",
                   check_layers, Reads::kModel),
    framework_rule("megatron.interleaved",
                   "Megatron: virtual stages need pp > 1 and micro-batches % pp == 0",
                   "The interleaved schedule runs micro-batches in groups of pp. All micro-batches "
                   "of a step run in one schedule; their number is global_batch_size / "
                   "(micro_batch_size * dp).",
                   check_interleaved),
    framework_rule("megatron.schedule", "Megatron: schedules are 1F1B and interleaved 1F1B",
                   "There is no argument for the schedule: virtual stages choose the interleaved "
                   "one. The other schedules of torch.distributed.pipelining have no counterpart.",
                   check_schedule),
    framework_rule("megatron.meta_device",
                   "Megatron-FSDP: meta-device initialisation excludes no_shard",
                   "Parameters are filled shard by shard, and with no_shard there are no shards "
                   "to fill.",
                   check_meta_device),
    framework_rule("megatron.overlap", "Megatron: overlap_param_gather needs overlap_grad_reduce",
                   "The gather of parameters uses hooks that only overlapped gradient reduction "
                   "installs, so the arguments are refused without it.",
                   check_overlap),
    framework_rule("megatron.average",
                   "Megatron: average_in_collective excludes calculate_per_token_loss",
                   "With a per-token loss gradients are sums that are divided by the number of "
                   "tokens at the end; averaging them before would divide twice.",
                   check_average),
}};

}  // namespace

std::span<const FrameworkRule> megatron_rules() { return kRules; }

}  // namespace am::frameworks
