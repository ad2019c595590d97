// Command table, last part: commands of the console, of pipes and of running jobs, from `mode` to
// `quit`.
#include "am/inspect/commands/table.h"

namespace am::inspect {
namespace {

constexpr Option kFileOptions[] = {kReplaceFile};
constexpr Option kSortOptions[] = {{"--up", "", "numbers in ascending order, texts from Z to A"}};
constexpr Option kCompareOptions[] = {{"--svg", "FILE", "also write the picture"}, kReplaceFile};
constexpr Option kWatchOptions[] = {{"--times", "K", "number of samples (default 20)"}};

constexpr Command kSessionRows[] = {
    {.name = "mode",
     .operands = "table|json|csv|md",
     .summary = "set the format of the answers that follow",
     .help =
         "json: one object per line, with the fields that --json has; csv and md: the rows of an "
         "answer, or its fields if it has no rows.\n"
         "Example:  mode csv",
     .json = "{mode: string}",
     .keywords = "table json csv md",
     .words = {1, 1},
     .action = InConsole{run_mode}},
    {.name = "output",
     .operands = "[FILE]",
     .summary = "write the answers that follow to a file; without FILE to the screen again",
     .help = "Each answer is appended; an existing file is replaced only with --force.\n"
             "Example:  mode csv; output stats.csv; stats",
     .json = "{output: string | null (null: the screen)}",
     .completes = Operand::kPath,
     .words = {0, 1},
     .options = kFileOptions,
     .action = InConsole{run_output}},
    {.name = "source",
     .operands = "FILE",
     .summary = "run the commands of a file, up to the first that fails",
     .help = "Example:  source checks.am",
     .json = "{results: [Answer] (one entry per command)}",
     .completes = Operand::kPath,
     .words = {1, 1},
     .action = InConsole{run_source}},
    {.name = "report",
     .operands = "FILE.html",
     .summary = "write all answers of this session, with pictures, to an HTML page",
     .help = "One file without scripts, fonts or links. The oldest answers are left out beyond 16 "
             "MiB. If a session on a run has no answers yet, the page has the plan and the curves "
             "of the metrics that change.\n"
             "Examples:  norms --by layer; hist lm_head.weight; report weights.html\n"
             "           am-repl runs/quickstart -c 'report run.html'",
     .json = "{path: string, commands: integer}",
     .completes = Operand::kPath,
     .words = {1, 1},
     .options = kFileOptions,
     .action = InConsole{run_report}},
    {.name = "sort",
     .operands = "KEY",
     .summary =
         "after a pipe: sort the rows by a field, numbers from the largest, texts by alphabet",
     .help = "KEY is a field of the answer's JSON or the title of a column; rows without it come "
             "last.\n"
             "Example:  stats | sort norm | head 3",
     .completes = Operand::kField,
     .words = {1, 1},
     .options = kSortOptions,
     .action = BehindPipe{sort_rows}},
    {.name = "head",
     .operands = "[N]",
     .summary = "after a pipe: the first N rows (default 10)",
     .help = "Example:  ls | sort bytes | head 10",
     .words = {0, 1},
     .action = BehindPipe{head_rows}},
    {.name = "tail",
     .operands = "[N]",
     .summary = "after a pipe: the last N rows (default 10)",
     .help = "Example:  ls | tail 3",
     .words = {0, 1},
     .action = BehindPipe{tail_rows}},
    {.name = "grep",
     .operands = "TEXT|GLOB",
     .summary = "after a pipe: rows in which a field contains the text, or matches the glob",
     .help = "Example:  ls | grep bfloat16",
     .words = {1, kAnyNumber},
     .action = BehindPipe{grep_rows}},
    {.name = "where",
     .operands = "KEY RELATION NUMBER",
     .summary = "after a pipe: rows whose field KEY satisfies a comparison with a number",
     .help = "Rows without a number under KEY are left out. At the beginning of a line, `where` is "
             "another command: it shows which rank and file hold each part of a tensor.\n"
             "Examples:  stats | where nan > 0\n"
             "           norms | where rms >= 0.5 | sort rms",
     .completes = Operand::kField,
     .words = {3, 3},
     .action = BehindPipe{where_rows}},
    {.name = "select",
     .operands = "KEY ..",
     .summary = "after a pipe: only these fields of each row",
     .help = "Example:  stats | select name norm",
     .completes = Operand::kField,
     .words = {1, kAnyNumber},
     .action = BehindPipe{select_fields}},
    {.name = "count",
     .summary = "after a pipe: the number of rows",
     .help = "Example:  ls *norm* | count",
     .action = BehindPipe{count_rows}},
    {.name = "metrics",
     .operands = "[KEY ..]",
     .summary = "a run: the metrics of each step, from metrics.jsonl",
     .help =
         "Reads the run folder, also while its job is running. The table has the last 20 steps; "
         "JSON, csv, md and pipes have all steps.\n"
         "Examples:  metrics\n"
         "           metrics loss lr | tail 5\n"
         "           metrics | plot loss grad_norm",
     .json = "{run: string, metrics: [{step: integer, *: number | null}]}",
     .words = {0, kAnyNumber},
     .action = OfRuns{run_metrics}},
    {.name = "compare",
     .operands = "[KEY ..]",
     .summary = "two runs or more: their curves in one picture, and the plan keys that differ",
     .help = "KEY is a metric; without one, the loss is drawn.\n"
             "Example:  am-repl runs/a runs/b -c 'compare loss validation_loss'",
     .json =
         "{of: [string], curves: [{run: string, key: string, steps: integer, min: number | "
         "null, max: number | null, last: number | null}], runs: [{run: string, steps: integer, "
         "loss: number | null, best_validation_loss: number | null, tokens_per_second: number | "
         "null, step_seconds: number}], differences: [{key: string, values: [any]}], svg?: "
         "string}",
     .words = {0, kAnyNumber},
     .options = kCompareOptions,
     .action = OfRuns{run_compare}},
    {.name = "status",
     .summary = "a running job: its step, loss and rate, who is attached, who paused it",
     .help = "Answers immediately, whatever the job is doing.",
     .json =
         "{step: integer, max_steps: integer, phase: string, loss: number | null, step_seconds: "
         "number | null, tokens_per_second: number | null, seconds_left: number | null, goodput: "
         "number | null (of the job so "
         "far), paused: string | null (by whom), expert_load: {max_over_mean: number, "
         "min_over_mean: number} | null (of the last step), world_size: integer, clients: "
         "[string]}",
     .action = InJob{}},
    {.name = "dashboard",
     .summary = "a running job, refreshed every second: loss, what each rank does, who is slow",
     .help = "Fills the window until q, Esc or Ctrl-C. Own time is computing, reading data and "
             "saving, per step of the last minute. In a pipe or a script, prints the dashboard "
             "once.\n"
             "Example:  am-repl runs/quickstart -c dashboard",
     .json = "{status: any, ranks: [any], stragglers: [any], losses: integer, text: string}",
     .action = InConsole{.function = run_dashboard, .of_job = true}},
    {.name = "ranks",
     .summary = "a running job: where each rank is, and which one the others wait for",
     .help =
         "A separate thread of each rank answers, so ranks that hang are listed too: a rank that "
         "is stopped, in an endless loop or waiting in a collective is named within two seconds. "
         "Beyond 16 ranks, those in the same state share a row.",
     .json = "{ranks: [{rank: integer, state: string, step: integer | null, phase: string | null, "
             "collective: string | null, seconds: number | null, memory_bytes: integer | null}], "
             "missing: [integer], text: string}",
     .action = InJob{}},
    {.name = "stragglers",
     .summary =
         "a running job: the ranks' own times and waiting times, and who holds up the others",
     .help =
         "Shows the seconds per step of the last minute: computing, reading data and saving are "
         "a rank's own time, the rest is waiting for other ranks. A rank is slow if one of its "
         "own times exceeds the median of the ranks with its pipeline stage by more than a "
         "fifth of a step. Times are those of the host; with GPUs, waiting includes the GPU's "
         "work.",
     .json =
         "{ranks: [{rank: integer, host: string, stage: integer, steps: integer, compute: "
         "number, data: number, saving: number, waiting: number, slow: string | null}], missing: "
         "[integer], text: string}",
     .action = InJob{}},
    {.name = "collectives",
     .operands = "[RANKS | all]",
     .summary = "the last collectives of each rank, or of one, in a plan or a running job",
     .help = "Shows each collective with its number in its group, its bytes and its age, and marks "
             "the one in which the rank\n"
             "waits. With several ranks, shows the newest four of each. RANKS are selected as for "
             "`stack`.\n"
             "Examples:  collectives 2\n"
             "           collectives pp=0 tp=1",
     .json =
         "{ranks: [{rank: integer, collectives: [{op: string, group: string, sequence: integer, "
         "bytes: integer, seconds_ago: number, waiting: boolean}]}]}",
     .words = {0, kAnyNumber},
     .action = InJob{.without_job = true},
     .nested_rows = "collectives"},
    {.name = "stack",
     .operands = "RANKS | all",
     .summary = "a running job: the call stacks of ranks' training threads",
     .help =
         "The thread itself writes its stack, whatever it is doing; this needs neither a debugger "
         "nor ptrace permission.\n"
         "A stopped process has no stack to show. A rank with a GPU has a second thread, which "
         "runs backward. Equal stacks of several ranks are shown once.\n"
         "RANKS are numbers, or coordinates in the mesh: AXIS=INDICES for the axes pp, "
         "dp_replicate, dp_shard, cp, tp, and for dp, dp_shard_cp, dp_cp, ep and ep_shard.\n"
         "Examples:  stack 3\n"
         "           stack 0-3,8\n"
         "           stack tp=0 dp=1,3\n"
         "           stack all",
     .json = "{rank: integer, frames: [string], backward_frames?: [string]} | {stacks: [{ranks: "
             "[integer], frames: [string], backward_frames?: [string]}], silent: [integer]}",
     .keywords = "all",
     .words = {1, kAnyNumber},
     .action = InJob{}},
    {.name = "pause",
     .summary = "a running job: pause it between two steps, until `continue`",
     .help =
         "All ranks wait after the current step. The pause is yours: it ends with `continue`, "
         "when you leave, when am-repl dies, and after five minutes without a command. Others see "
         "who paused the job.",
     .json = "{step: integer, paused: boolean}",
     .action = InJob{}},
    {.name = "step",
     .operands = "[N]",
     .summary =
         "train N steps (default 1): a plan's ranks on its data, or a running job, which is then "
         "paused again",
     .help =
         "Answers when the steps are done. A plan's ranks start at step 1 from the weights in "
         "memory, and save\n"
         "nothing. Unsharded tensors are freed; `grad` and `optim` show the step's gradients and "
         "states.\n"
         "Example:  pause; step 3; stats *.norm.weight; continue",
     .json =
         "{step: integer, loss: number | null, grad_norm: number | null, paused?: boolean (of a "
         "job)}",
     .words = {0, 1},
     .action = InJob{.without_job = true, .lasts = true}},
    {.name = "continue",
     .summary = "a running job: continue after a pause",
     .help =
         "Ends your own pause. A pause of another user ends when that user leaves, or after five "
         "minutes\n"
         "without a command.",
     .json = "{step: integer, paused: boolean}",
     .action = InJob{}},
    {.name = "break",
     .operands = "[CONDITION | off]",
     .summary = "a running job: pause it after the first step that meets a condition",
     .help = "CONDITION is `[when] NAME OP VALUE`. NAME is one of loss, grad_norm, lr, step, "
             "step_seconds, tokens_per_second, expert_load (the busiest expert's load, divided by "
             "the mean), validation_loss, aux_loss, skipped_steps, mfu; OP is <, <=, >, >=, == or "
             "!=; VALUE is a number or a "
             "NAME. `break when loss != loss` stops at NaN. Without a condition, shows the current "
             "one; `off` removes it.\n"
             "The condition is removed when you leave am-repl.\n"
             "Example:  break when loss > 4.5",
     .json = "{when: string | null}",
     .keywords = "when loss grad_norm lr step step_seconds tokens_per_second expert_load "
                 "validation_loss aux_loss skipped_steps mfu off",
     .words = {0, 4},
     .action = InJob{}},
    {.name = "watch",
     .operands = "EXPR [every N]",
     .summary = "a running job: plot a number after every N steps",
     .help = "EXPR is a step's loss, grad_norm, lr, step_seconds, tokens_per_second, expert_load, "
             "validation_loss, aux_loss, skipped_steps or mfu; or `MEASURE [NAMES]` of tensors: "
             "l1, l2,\n"
             "max, rms, nan or inf, as `norms` computes them for all NAMES together. The first "
             "sample is taken immediately, the\n"
             "others after the steps that are multiples of N (default 1). Ctrl-C ends the plot "
             "early and shows the samples so far.\n"
             "Examples:  watch loss every 10\n"
             "           watch rms *.q_proj.weight every 5 --times 40",
     .json = "{measure: string, names: [string], every: integer, samples: [{step: integer, value: "
             "number | null (null: not finite)}], failure?: string (why the watch ended)}",
     .completes = Operand::kModule,
     .keywords = "loss grad_norm lr step_seconds tokens_per_second expert_load validation_loss "
                 "aux_loss skipped_steps mfu l1 l2 max rms nan inf every",
     .words = {1, kAnyNumber},
     .options = kWatchOptions,
     .action = InJob{.lasts = true}},
    {.name = "tripwire",
     .operands = "[CONDITION | off]",
     .summary = "a running job: pause it when a tensor meets a condition",
     .help =
         "CONDITION is `MEASURE OP VALUE [NAMES] [every N]`. MEASURE is l1, l2, max, rms, nan or "
         "inf, computed for each tensor\n"
         "separately, as by `norms`; OP is <, <=, >, >=, == or !=; `nan` means `nan > 0`. The "
         "condition is checked now and after\n"
         "every N steps (default 1). The first tensor that meets the condition is named, and the "
         "job is paused for you. Without\n"
         "a condition, lists your tripwires; `off` removes them. Leaving am-repl removes them "
         "too.\n"
         "Examples:  tripwire nan\n"
         "           tripwire max > 100 *.mlp.* every 10",
     .json = "{tripwires: [string]}",
     .completes = Operand::kModule,
     .keywords = "l1 l2 max rms nan inf every off",
     .words = {0, kAnyNumber},
     .action = InJob{}},
    {.name = "save",
     .summary = "a running job: write a checkpoint now",
     .help = "Needs `am-repl RUN --write`. Training then continues.",
     .json = "{step: integer, checkpoint: string}",
     .action = InJob{}},
    {.name = "detach",
     .summary = "leave a running job, which continues",
     .help = "`quit` and Ctrl-D do the same.",
     .action = WithoutSession{tell_quit}},
    {.name = "help",
     .operands = "[COMMAND | GROUP]",
     .summary = "list the commands, or one group of them, or explain one",
     .help = "Groups: look, values, model, checks, shards, runs, live, pipe, session.\n"
             "Examples:  help unshard\n"
             "           help live",
     .json =
         "Help | {commands: [Help]}; Help = {name: string, usage: string, summary: string, help: "
         "string, options: [{name: string, value: string, help: string}]}",
     .also = "? man",
     .completes = Operand::kCommand,
     .keywords = "look values model checks shards runs live pipe session",
     .words = {0, 1},
     .action = WithoutSession{tell_help}},
    {.name = "quit",
     .summary = "end the session; so does Ctrl-D",
     .help =
         "Also ends a script: later commands are not run. `exit`, `q`, `:q` and `bye` do the same.",
     .also = "exit q :q bye",
     .action = WithoutSession{tell_quit}},
};

}  // namespace

std::span<const Command> session_rows() { return kSessionRows; }

}  // namespace am::inspect
