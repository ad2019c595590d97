// What a job that runs does itself, and how to leave it: rows alone, because the job has the code
// (live/verbs.cpp).
#include "am/inspect/commands/registry.h"

namespace am::inspect {
namespace {

Result tell_detach(const term::Style&, const Arguments&) {
  Result result;
  result.quit = true;
  return result;
}

}  // namespace

const Command kStatusCommand = {
    .name = "status",
    .operands = "",
    .summary = "a running job: its step, loss and rate, who is attached, who paused it",
    .help = "Answered at once, whatever the job is doing.",
    .json =
        "{step: integer, max_steps: integer, phase: string, loss: number | null, "
        "step_seconds: number | null, tokens_per_second: number | null, paused: string | "
        "null (by whom), world_size: integer, clients: [string]}",
    .live = true,
};

const Command kRanksCommand = {
    .name = "ranks",
    .operands = "",
    .summary = "a running job: where each rank is, and which one the others wait for",
    .help =
        "Answered by a thread of each rank's own, so also by ranks that hang: a rank that is "
        "stopped, in an endless loop or waiting in a collective is named within two seconds.",
    .json =
        "{ranks: [{rank: integer, state: string, step: integer | null, phase: string | null, "
        "collective: string | null, seconds: number | null, memory_bytes: integer | null}], "
        "missing: [integer], text: string}",
    .live = true,
};

const Command kStackCommand = {
    .name = "stack",
    .operands = "RANK",
    .summary = "a running job: the functions that a rank's training thread is in",
    .help =
        "The thread writes down where it is, whatever it does; needs neither a debugger nor its "
        "rights.\n"
        "A rank whose process is stopped has none to show.\n"
        "Example:  stack 3",
    .json = "{rank: integer, frames: [string]}",
    .min_words = 1,
    .max_words = 1,
    .live = true,
};

const Command kPauseCommand = {
    .name = "pause",
    .operands = "",
    .summary = "a running job: hold it between two steps, until `continue`",
    .help =
        "All ranks wait after the step that they are in. The pause is yours: it ends with "
        "`continue`, when you leave, when am-repl dies, and after five minutes without a command. "
        "Others see who holds the job.",
    .json = "{step: integer, paused: boolean}",
    .live = true,
};

const Command kContinueCommand = {
    .name = "continue",
    .operands = "",
    .summary = "a running job: go on after a pause",
    .help = "Of whoever paused it.",
    .json = "{step: integer, paused: boolean}",
    .live = true,
};

const Command kBreakCommand = {
    .name = "break",
    .operands = "[CONDITION | off]",
    .summary = "a running job: pause it after the first step of which this holds",
    .help =
        "CONDITION is `[when] NAME < VALUE`. NAME is one of loss, grad_norm, lr, step, "
        "step_seconds, tokens_per_second; compared by <, <=, >, >=, == or !=. `break when loss != "
        "loss` stops at NaN. Without words: what was asked for; `off` forgets it.\n"
        "It ends when you leave.\n"
        "Example:  break when loss > 4.5",
    .json = "{when: string | null}",
    .keywords = "when loss grad_norm lr step step_seconds tokens_per_second off",
    .max_words = 4,
    .live = true,
};

constexpr Option kWatchOptions[] = {{"--times", "K", "how many samples; 20"}};

const Command kWatchCommand = {
    .name = "watch",
    .operands = "EXPR [every N]",
    .summary = "a running job: one number of every N steps, as a plot that grows",
    .help =
        "EXPR is a step's loss, grad_norm, lr, step_seconds or tokens_per_second; or `MEASURE "
        "[NAMES]` of tensors: l1, l2,\n"
        "max, rms, nan or inf, as `norms` counts them of all NAMES together. A sample is taken at "
        "once and after every N steps (1).\n"
        "Ctrl-C ends it before its time and shows what there is.\n"
        "Examples:  watch loss every 10\n"
        "           watch rms *.q_proj.weight every 5 --times 40",
    .json =
        "{measure: string, names: [string], every: integer, samples: [{step: integer, value: "
        "number | null (null: not finite)}]}",
    .completes = Operand::kModule,
    .keywords = "loss grad_norm lr step_seconds tokens_per_second l1 l2 max rms nan inf every",
    .min_words = 1,
    .max_words = Command::kAnyNumber,
    .options = kWatchOptions,
    .live = true,
    .lasts = true,
};

const Command kTripwireCommand = {
    .name = "tripwire",
    .operands = "[CONDITION | off]",
    .summary = "a running job: pause it when this holds of a tensor",
    .help =
        "CONDITION is `MEASURE < VALUE [NAMES] [every N]`, of each tensor by itself: l1, l2, max, "
        "rms, nan or inf, as `norms`\n"
        "counts them; `nan` alone is `nan > 0`. It is looked at now and after every N steps (1). "
        "The first tensor of which it\n"
        "holds is named and the job is paused for you. Without words: yours; `off` takes them "
        "away. They end when you leave.\n"
        "Examples:  tripwire nan\n"
        "           tripwire max > 100 *.mlp.* every 10",
    .json = "{tripwires: [string]}",
    .completes = Operand::kModule,
    .keywords = "l1 l2 max rms nan inf every off",
    .max_words = Command::kAnyNumber,
    .live = true,
};

const Command kSaveCommand = {
    .name = "save",
    .operands = "",
    .summary = "a running job: write a checkpoint now",
    .help = "Needs `am-repl RUN --write`. Training goes on from where it was.",
    .json = "{step: integer, checkpoint: string}",
    .live = true,
};

const Command kDetachCommand = {
    .name = "detach",
    .operands = "",
    .summary = "leave a running job; it goes on",
    .help = "As `quit` and Ctrl-D do.",
    .tell = tell_detach,
};

}  // namespace am::inspect
