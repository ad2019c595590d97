// Rules on batch sizes and the sequence.
#include "am/config/batch.h"

#include <algorithm>
#include <array>
#include <variant>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/model/family.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

void check_size(const RuleContext& context, Diagnostics& found) {
  if (!context.dp.has_value()) return;
  const int64_t dp = *context.dp;
  const config::TrainSection& train = context.plan.train;
  const config::BatchShape batch = config::batch_shape(context.plan, dp);
  const int64_t one = batch.one_each;
  const int64_t global = batch.sequences;
  if (global >= one) return;
  found.error("batch.size", context.plan.span("train.global_batch_size"),
              cat("global_batch_size = ", global, " is less than one micro-batch on each of the ",
                  dp, " data-parallel ranks: ", train.micro_batch_size, " * ", dp, " = ", one),
              cat("global_batch_size = ", one, " or a multiple, or fewer data-parallel ranks"));
}

void check_divide(const RuleContext& context, Diagnostics& found) {
  if (!context.dp.has_value()) return;
  const int64_t dp = *context.dp;
  const config::TrainSection& train = context.plan.train;
  const config::BatchShape batch = config::batch_shape(context.plan, dp);
  const int64_t one = batch.one_each;
  const int64_t global = batch.sequences;
  if (global < one || batch.divides_over_ranks()) return;
  std::string help = assignment("global_batch_size", nearest_multiples(one, global));
  if (global % dp == 0) {
    const auto fitting = divisors(global / dp);
    help += cat("; or ",
                assignment("micro_batch_size", nearest_values(fitting, train.micro_batch_size)));
  }
  found.error("batch.divide", context.plan.span("train.global_batch_size"),
              cat("global_batch_size = ", global, " is not a multiple of micro_batch_size * dp = ",
                  train.micro_batch_size, " * ", dp, " = ", one),
              help);
}

// Whether the model has a table of learned position embeddings, whose number of rows limits the
// sequence length.
bool has_position_table(const RuleContext& context) {
  if (context.layout == nullptr) return false;
  const model::Inventory& inventory = context.layout->inventory;
  return std::any_of(inventory.parameters.begin(), inventory.parameters.end(),
                     [&](const model::ParameterSpec& parameter) {
                       return parameter.module_kind == model::ModuleKind::kEmbedding &&
                              parameter.module() != inventory.names.embedding;
                     });
}

void check_length(const RuleContext& context, Diagnostics& found) {
  if (context.model == nullptr) return;
  const int64_t longest = context.model->max_position_embeddings;
  if (context.plan.train.seq_len <= longest) return;
  const std::string_view key = model::family_of(*context.model).keys.positions;
  if (key.empty()) return;  // the family has no limit, for example Mamba
  const bool table = has_position_table(context);
  found.add(
      {"seq.length", table ? Severity::kError : Severity::kWarning,
       context.plan.span("train.seq_len"),
       cat("seq_len = ", context.plan.train.seq_len, " is longer than the model's ", key, " = ",
           longest, table ? ", and the model has no learned positions beyond that" : ""),
       cat("seq_len = ", longest, " or less, or raise ", key, " in ", context.model->file)});
}

void check_sequence_parallel(const RuleContext& context, Diagnostics& found) {
  if (context.axes == nullptr || !config::sequence_parallel(context.plan.strategy)) return;
  // With cp > 1, the sequence is padded so that tp divides each cp rank's part; the rule "seq.cp"
  // reports the padding.
  const int64_t tp = context.axes->tp;
  const int64_t seq_len = context.plan.train.seq_len;
  if (tp == 1 || context.axes->cp > 1 || seq_len % tp == 0) return;
  found.error("seq.sp", context.plan.span("train.seq_len"),
              cat("sequence_parallel cuts the sequence over tp: seq_len = ", seq_len,
                  " is not divisible by tp_size = ", tp),
              assignment("seq_len", nearest_multiples(tp, seq_len)));
}

constexpr std::array<Rule, 4> kRules = {{
    {.id = "batch.size",
     .summary = "a step has at least one micro-batch for every data-parallel rank",
     .explain = "global_batch_size counts the sequences of one optimizer step over all ranks. Each "
                "data-parallel rank takes an equal share, in micro-batches of micro_batch_size; "
                "tensor-, context- and pipeline-parallel ranks work on the same sequences together "
                "and do not count.",
     .check = check_size},
    {.id = "batch.divide",
     .summary = "global_batch_size is a multiple of micro_batch_size * dp",
     .explain = "Every data-parallel rank accumulates the same number of micro-batches, all of the "
                "same size: global_batch_size / (micro_batch_size * dp). A remainder would give "
                "some ranks more work than others, or silently another batch size.\n\n"
                "dp is dp_replicate * dp_shard: world_size / (tp_size * cp_size * pp_size).",
     .check = check_divide},
    {.id = "seq.length",
     .summary = "seq_len does not exceed the model's max_position_embeddings (a warning)",
     .explain = "max_position_embeddings is the length that the model was made for. The rotary "
                "embedding can be computed for later positions, but the model was not trained on "
                "them, and tools that load the trained model take the limit from its config. To "
                "train a longer context, raise the key in config.json, and usually also rope_theta "
                "or the scaling.\n\n"
                "A model with learned positions (GPT-2) has one row for each position and none for "
                "later ones, so this is an error.",
     .needs = Needs::kLayout,
     .check = check_length},
    {.id = "seq.sp",
     .summary = "with sequence_parallel, seq_len is a multiple of tp_size",
     .explain =
         "Between the tensor-parallel layers each tp rank holds seq_len / tp_size "
         "positions. All-gather and reduce-scatter exchange them, and need parts of equal "
         "length. With context parallelism, each cp rank pads its positions to a multiple of "
         "tp_size instead.",
     .check = check_sequence_parallel},
}};

}  // namespace

std::span<const Rule> batch_rules() { return kRules; }

}  // namespace am::rules
