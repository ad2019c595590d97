// Rules on context parallelism.
#include "am/layout/context.h"

#include <array>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/config/field.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

bool cuts_sequences(const RuleContext& context) {
  return context.axes != nullptr && context.axes->cp > 1;
}

void check_section(const RuleContext& context, Diagnostics& found) {
  if (context.plan.mesh.cp_size > 1) return;
  if (!config::is_chosen(context.plan, "context.method")) return;
  found.warning("cp.section", context.plan.span("context.method"),
                "method has no effect with cp_size = 1",
                "remove [context], or set cp_size in [mesh]");
}

void check_heads(const RuleContext& context, Diagnostics& found) {
  if (!cuts_sequences(context) || context.layout == nullptr) return;
  if (context.plan.context.method != "ulysses") return;
  const model::LayerSpec* cut = layer_of_cut_heads(context);
  const model::LayerSpec& layer = cut != nullptr ? *cut : context.layout->inventory.spec.layer(0);
  const int64_t all = layer.attention.heads, tp = cut != nullptr ? context.axes->tp : 1;
  const int64_t cp = context.axes->cp;
  if (all % tp != 0 || all / tp % cp == 0) return;
  found.error(
      "cp.heads",
      context.plan.span(context.plan.given("context.method") ? "context.method" : "mesh.cp_size"),
      cat("ulysses distributes heads over cp: cp_size = ", cp, " does not divide the ", all / tp,
          " heads of a rank", tp > 1 ? cat(" (", all, " over tp_size = ", tp, ")") : std::string()),
      cat("method = \"ring\" or \"all_gather\", or ",
          assignment("cp_size", nearest_values(divisors(all / tp), cp))));
}

void note_padding(const RuleContext& context, Diagnostics& found) {
  if (!cuts_sequences(context)) return;
  const bool sequence_parallel =
      context.layout != nullptr && context.layout->tp_plan.sequence_parallel;
  const mesh::SequenceCut cut =
      layout::sequence_cut(context.plan, *context.axes, sequence_parallel);
  if (cut.padded == cut.length) return;
  const int64_t multiple = 2 * cut.ranks * (sequence_parallel ? context.axes->tp : 1);
  found.add({"seq.cp", Severity::kNote, context.plan.span("train.seq_len"),
             cat("seq_len = ", cut.length, " is not a multiple of 2 * cp_size",
                 sequence_parallel ? " * tp_size" : "", " = ", multiple,
                 ": each sequence is padded to ", cut.padded, " positions"),
             assignment("seq_len", nearest_multiples(multiple, cut.length))});
}

constexpr std::array<Rule, 3> kRules = {{
    {.id = "cp.section",
     .summary = "[context] is given only with cp_size > 1 (a warning)",
     .explain =
         "context.method selects how attention is computed over sequences that are distributed "
         "over several ranks. With cp_size = 1 each rank has whole sequences.",
     .check = check_section},
    {.id = "cp.heads",
     .summary = "with context.method = \"ulysses\", cp_size divides the query heads of a rank",
     .explain =
         "With Ulysses, each rank computes attention for some heads over whole sequences, so the "
         "num_attention_heads / tp_size heads of a rank are divided among cp_size ranks. If "
         "cp_size does not divide the key heads, each key head is sent to several ranks. The "
         "methods ring and all_gather do not divide heads.",
     .needs = Needs::kLayout,
     .check = check_heads},
    {.id = "seq.cp",
     .summary = "with context parallelism, 2 * cp_size divides the sequence, or it is padded "
                "(reported as a note)",
     .explain =
         "A causal mask gives late positions more work than early ones. The sequence is therefore "
         "cut into 2 * cp_size chunks, and cp rank r takes chunks r and 2 * cp_size - 1 - r: one "
         "early and one late, so that all have the same work (ulysses distributes heads, so each "
         "rank takes one run of positions). Under sequence_parallel each rank's part is cut over "
         "tp too.\n\n"
         "A sequence whose length is not a multiple of 2 * cp_size (times tp_size under "
         "sequence_parallel) is padded with positions that have no label and that no position "
         "attends to: the loss and the counts of tokens per expert do not include them, but the "
         "time to compute them is lost.",
     .needs = Needs::kLayout,
     .check = note_padding},
}};

}  // namespace

std::span<const Rule> context_rules() { return kRules; }

}  // namespace am::rules
