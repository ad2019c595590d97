// Defines the table rows of the commands that a running job implements (in live/verbs.cpp), and the
// command `detach`.
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
    .help = "Answers immediately, whatever the job is doing.",
    .json =
        "{step: integer, max_steps: integer, phase: string, loss: number | null, "
        "step_seconds: number | null, tokens_per_second: number | null, goodput: number | null (of "
        "the "
        "job so far), paused: string | null (by whom), world_size: integer, clients: [string]}",
    .live = true,
};

const Command kRanksCommand = {
    .name = "ranks",
    .operands = "",
    .summary = "a running job: where each rank is, and which one the others wait for",
    .help =
        "A separate thread of each rank answers, so ranks that hang are listed too: a rank that is "
        "stopped, in an endless loop or waiting in a collective is named within two seconds. "
        "Beyond 16 ranks, those in the same state share a row.",
    .json =
        "{ranks: [{rank: integer, state: string, step: integer | null, phase: string | null, "
        "collective: string | null, seconds: number | null, memory_bytes: integer | null}], "
        "missing: [integer], text: string}",
    .live = true,
};

const Command kStackCommand = {
    .name = "stack",
    .operands = "RANK | all",
    .summary = "a running job: the call stack of a rank's training thread",
    .help =
        "The thread itself writes its stack, whatever it is doing; this needs neither a debugger "
        "nor ptrace permission.\nA stopped process has no stack to show. A rank with a GPU has a "
        "second thread, which runs backward. `all` shows equal stacks once, with their "
        "ranks.\nExamples:  stack 3\n           stack all",
    .json =
        "{rank: integer, frames: [string], backward_frames?: [string]} | {stacks: [{ranks: "
        "[integer], frames: [string], backward_frames?: [string]}], silent: [integer]}",
    .keywords = "all",
    .min_words = 1,
    .max_words = 1,
    .live = true,
};

const Command kPauseCommand = {
    .name = "pause",
    .operands = "",
    .summary = "a running job: pause it between two steps, until `continue`",
    .help =
        "All ranks wait after the current step. The pause is yours: it ends with `continue`, when "
        "you leave, when am-repl dies, and after five minutes without a command. Others see who "
        "paused the job.",
    .json = "{step: integer, paused: boolean}",
    .live = true,
};

const Command kContinueCommand = {
    .name = "continue",
    .operands = "",
    .summary = "a running job: continue after a pause",
    .help =
        "Ends your own pause. A pause of another user ends when that user leaves, or after "
        "five minutes\n"
        "without a command.",
    .json = "{step: integer, paused: boolean}",
    .live = true,
};

const Command kBreakCommand = {
    .name = "break",
    .operands = "[CONDITION | off]",
    .summary = "a running job: pause it after the first step that meets a condition",
    .help =
        "CONDITION is `[when] NAME OP VALUE`. NAME is one of loss, grad_norm, lr, step, "
        "step_seconds, tokens_per_second; OP is <, <=, >, >=, == or !=; VALUE is a number or a "
        "NAME. `break when loss != loss` stops at NaN. Without a condition, shows the current one; "
        "`off` removes it.\n"
        "The condition is removed when you leave am-repl.\n"
        "Example:  break when loss > 4.5",
    .json = "{when: string | null}",
    .keywords = "when loss grad_norm lr step step_seconds tokens_per_second off",
    .max_words = 4,
    .live = true,
};

constexpr Option kWatchOptions[] = {{"--times", "K", "number of samples (default 20)"}};

const Command kWatchCommand = {
    .name = "watch",
    .operands = "EXPR [every N]",
    .summary = "a running job: plot a number after every N steps",
    .help =
        "EXPR is a step's loss, grad_norm, lr, step_seconds or tokens_per_second; or `MEASURE "
        "[NAMES]` of tensors: l1, l2,\n"
        "max, rms, nan or inf, as `norms` computes them for all NAMES together. A sample is taken "
        "immediately and after every N\n"
        "steps (default 1). Ctrl-C ends the plot early and shows the samples so far.\n"
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
    .summary = "a running job: pause it when a tensor meets a condition",
    .help =
        "CONDITION is `MEASURE OP VALUE [NAMES] [every N]`. MEASURE is l1, l2, max, rms, nan or "
        "inf, computed for each tensor\n"
        "separately, as by `norms`; OP is <, <=, >, >=, == or !=; `nan` means `nan > 0`. The "
        "condition is checked now and after\n"
        "every N steps (default 1). The first tensor that meets the condition is named, and the "
        "job is paused for you. Without\n"
        "a condition, lists your tripwires; `off` removes them. Leaving am-repl removes them too.\n"
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
    .help = "Needs `am-repl RUN --write`. Training then continues.",
    .json = "{step: integer, checkpoint: string}",
    .live = true,
};

const Command kDetachCommand = {
    .name = "detach",
    .operands = "",
    .summary = "leave a running job, which continues",
    .help = "`quit` and Ctrl-D do the same.",
    .tell = tell_detach,
};

}  // namespace am::inspect
