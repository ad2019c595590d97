// Rules on schedule files. The reader of these files (am/pipeline/csv.h) reports all rules except
// "schedule.plan", which `am-plan schedule` reports.
#include <array>

#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

constexpr std::array<Rule, 6> kRules = {{
    {.id = "schedule.syntax",
     .summary = "a schedule file has one line of passes and bubbles per rank",
     .explain = "The file is CSV as PyTorch's pipeline schedules write it: a line for each rank, "
                "cells in the order of execution, an empty cell for a bubble. A pass is a stage, a "
                "kind and a micro-batch: 2F0 is the forward of stage 2 on micro-batch 0, 2B0 its "
                "backward, 2I0 and 2W0 the backward's parts for the input and for the weights. "
                "(2F1;5B0)OVERLAP_F_B is a forward and a backward side by side.\n\n"
                "Messages and gathered parameters (SEND_F, UNSHARD and so on) are not written: "
                "they follow from the order of the passes.",
     .check = nullptr},
    {.id = "schedule.passes",
     .summary = "a schedule runs every stage once on every micro-batch",
     .explain = "Each stage has one forward (F) for each micro-batch, and either one whole "
                "backward (B) or its two parts (I and W). With a missing pass, training would use "
                "less than the batch; a repeated pass would count its gradient twice. The numbers "
                "of stages and micro-batches follow from the largest indices in the file.",
     .check = nullptr},
    {.id = "schedule.order",
     .summary = "a schedule's backwards come after their forwards",
     .explain = "On a rank, B and I come after the F of the same stage and micro-batch, whose "
                "activations they read, and W comes after its I.",
     .check = nullptr},
    {.id = "schedule.owner",
     .summary = "every stage of a schedule is on one rank",
     .explain =
         "A stage's parameters live on one rank, so all of its passes are in that rank's line. "
         "The stage belongs to the rank that names it first.",
     .check = nullptr},
    {.id = "schedule.deadlock",
     .summary = "a schedule does not deadlock",
     .explain =
         "A forward needs the forward of the stage before it, a backward needs the backward of "
         "the stage after it. When ranks wait for each other in a circle the job hangs. Each "
         "rank that would wait forever is reported, with the pass that waits and the passes "
         "that it needs. The cause is often one pass that comes too early in one line.",
     .check = nullptr},
    {.id = "schedule.plan",
     .summary = "a schedule file has as many ranks as the plan's pipeline",
     .explain = "The file has one line for each index along pp. A file with another number of "
                "lines belongs to another plan.",
     .check = nullptr},
}};

}  // namespace

std::span<const Rule> schedule_rules() { return kRules; }

}  // namespace am::rules
