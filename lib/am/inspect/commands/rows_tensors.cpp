// Command table, first part: commands that describe tensors, from `info` to `memory`.
#include "am/inspect/commands/table.h"

namespace am::inspect {
namespace {

constexpr Option kSvg = {"--svg", "FILE", "write the picture to a file too"};

constexpr Option kLsOptions[] = {
    {"--optimizer", "", "optimizer states: all, or those of the named parameters"},
    {"--values", "", "values that are not tensors: settings, counters, the position in the data"},
    kFlat,
};
constexpr Option kStatsOptions[] = {kFlat};
constexpr Option kNormsOptions[] = {
    {"--by", "parameter|layer", "one row per parameter, or per layer"}};
constexpr Option kForwardOptions[] = {
    {"--of", "TEXT|FILE", "run this text instead of the data of the next step"},
    kForceModel,
};
constexpr Option kPrintOptions[] = {
    {"--to", "FILE", "write the values to FILE.npy (one tensor) or FILE.safetensors instead"},
    kReplaceFile,
};
constexpr Option kNanOptions[] = {{"--strict", "", "exit status 3 if there are any"}};
constexpr Option kGradOptions[] = {
    {"--of", "TEXT|FILE", "compute the gradients of this text's loss first"},
    {"--force", "", "even if the gradients do not fit into this machine's memory"},
};
constexpr Option kTopOptions[] = {
    {"--by", "bytes|norm|rms|max|update", "default bytes"},
    {"--lr", "LR", "learning rate for update (default: the checkpoint's)"},
    {"--eps", "EPS", "Adam's eps for update (default: the checkpoint's)"},
};
constexpr Option kHistOptions[] = {
    {"--bins", "N", "number of bins, 1 to 1000 (default 20)"}, kSvg, kReplaceFile};
constexpr Option kHeatOptions[] = {
    {"--of", "mean|max|signed", "mean of magnitudes (default), largest magnitude, mean"},
    {"--rows", "N", "rows of the picture, 1 to 1000 (default: as many as fit)"},
    {"--columns", "N", "columns of the picture (default: as many as fit)"},
    kSvg,
    kReplaceFile,
};
constexpr Option kPlotOptions[] = {
    {"--of", "rms|norm|max|std", "default rms"},
    {"--by", "parameter|layer", "one bar per parameter, or per layer"},
    kSvg,
    kReplaceFile,
};

constexpr Command kTensorRows[] = {
    {.name = "info",
     .summary = "the open target: model, size, dtype, layout, origin",
     .help = "`parameters` counts elements, `tensors` counts names.",
     .json =
         "{target: string, kind: 'checkpoint' | 'plan' | 'job', format?: string, step?: integer, "
         "model_type: string | null, parameters: integer (elements), tensors: integer, bytes: "
         "integer, dtype: string, weights?: string, strategy?: string, optimizer_tensors?: "
         "integer, values?: integer, world_size?: integer, mesh?: Mesh, compute_dtype?: string, "
         "tokenizer: string | null, damage?: [Problem] (files that are missing or cut off: all "
         "others can be read), note?: string, cannot_run?: string}",
     .action = OnRanks{run_info}},
    {.name = "mesh",
     .summary = "the mesh of ranks, and its groups",
     .help =
         "For a checkpoint it is the mesh that wrote it; a Hugging Face folder counts as one rank.",
     .json = "{world_size: integer, mesh: Mesh, groups: {*: [[integer]]} (as `am-plan show` gives "
             "them)}",
     .action = OnRanks{run_mesh}},
    {.name = "ls",
     .operands = "[NAMES]",
     .summary = "the parameters, their shapes and dtypes",
     .help = "A `*` also matches dots; a module's name lists its parameters. On a terminal, equal "
             "layers and experts share a row.\n"
             "Examples:  ls\n"
             "           ls *.q_proj.weight\n"
             "           ls model.layers.0.mlp --optimizer\n"
             "           ls optim.param_groups --values",
     .json = "{parameters: [{name: string, shape: [integer], dtype: string, bytes: integer}]} | "
             "{values: [{name: string, value: any}]}",
     .completes = Operand::kModule,
     .words = {0, kAnyNumber},
     .options = kLsOptions,
     .action = OnRanks{run_ls}},
    {.name = "tree",
     .operands = "[MODULE]",
     .summary = "modules and their sizes; equal layers are drawn once",
     .help = "Example:  tree model.layers.0",
     .json = "{tree: Node}; Node = {name: string, parameters: integer (elements), bytes: integer, "
             "children: [Node]}",
     .completes = Operand::kModule,
     .words = {0, 1},
     .action = OnRanks{run_tree}},
    {.name = "show",
     .operands = "NAMES",
     .summary = "one parameter: shape, dtype, placements, and the part that each rank holds",
     .help = "A unique suffix of a name is enough. Several parameters are shown in one row each.\n"
             "Example:  show model.layers.0.self_attn.q_proj.weight",
     .json =
         "Shown | {parameters: [Shown]}; Shown = {name: string, shape: [integer], dtype: string, "
         "bytes: integer, placements: {*: string} (by mesh axis), shards: [Part]}",
     .completes = Operand::kParameter,
     .words = {1, kAnyNumber},
     .action = OnRanks{run_show}},
    {.name = "stats",
     .operands = "[NAMES]",
     .summary = "min, max, mean, std, norm; how many NaN and infinities",
     .help =
         "std is torch.std's, unbiased. NaN and infinities are counted, and left out of the other "
         "numbers; all\n"
         "sums run in double. Nothing is gathered: each rank reads its shard. On a terminal, equal "
         "layers and experts share a row, with the statistics of all their values.\n"
         "Examples:  stats *norm.weight\n"
         "           stats lm_head.weight[0:4] lm_head.weight[4:]",
     .json = "{stats: [Moments], unread?: [Unread]}",
     .completes = Operand::kModule,
     .words = {0, kAnyNumber},
     .options = kStatsOptions,
     .action = OnValues{}},
    {.name = "norms",
     .operands = "[NAMES]",
     .summary = "L1, L2, largest magnitude and root mean square of each tensor and of all together",
     .help =
         "Computed over the finite values; NaN and infinities are counted separately. Sums are in "
         "double; each rank\n"
         "sums its shard.\n"
         "Examples:  norms *q_proj.weight\n"
         "           norms --by layer",
     .json =
         "{norms: [Norms], total: Norms, unread?: [Unread]}; Norms = {name: string, numel: "
         "integer, l1: number | null, l2: number | null, max: number | null, rms: number | null, "
         "nan: integer, inf: integer}",
     .completes = Operand::kModule,
     .words = {0, kAnyNumber},
     .options = kNormsOptions,
     .action = OnValues{}},
    {.name = "calc",
     .operands = "EXPRESSION",
     .summary = "arithmetic on measures of tensors: calc norm(a) / norm(b)",
     .help =
         "Numbers, + - * / and brackets; and norm, l1, rms, absmax, min, max, mean, std, sum (of "
         "the finite values), nan,\n"
         "inf and numel of NAMES, over all of them together. Everything is computed in double. "
         "Short names of `let` can be used.\n"
         "Examples:  calc norm(lm_head.weight[:4]) / norm(lm_head.weight)\n"
         "           let w = model.norm.weight; calc (max(w) - min(w)) / std(w)",
     .json = "{expression: string, value: number | null (null: not finite)}",
     .also = "eval =",
     .completes = Operand::kParameter,
     .keywords = "norm( l1( rms( absmax( min( max( mean( std( sum( nan( inf( numel(",
     .words = {1, kAnyNumber},
     .action = OnValues{}},
    {.name = "nan",
     .operands = "[NAMES]",
     .summary = "which tensors have NaN or infinities, and where the first one is",
     .help = "`first` is the index of the first one in the whole tensor, in row-major order. With "
             "--strict, a script\n"
             "stops if there are any.\n"
             "Examples:  nan\n"
             "           nan optim.state",
     .json = "{ok: boolean, looked_at: integer, parameters: [{name: string, nan: integer, inf: "
             "integer, first: [integer]}] (those that have some), unread?: [Unread]}",
     .completes = Operand::kModule,
     .words = {0, kAnyNumber},
     .options = kNanOptions,
     .action = OnValues{}},
    {.name = "checksum",
     .operands = "[NAMES]",
     .summary = "a checksum of each tensor, and whether all replicas of it are equal bit for bit",
     .help =
         "The checksum depends on values, shape and dtype, but not on the layout or the file "
         "format: equal checksums\n"
         "mean equal tensors. On ranks each copy is hashed in place; if copies differ, it names "
         "the ranks that differ\n"
         "from the majority and the first difference, with exit status 3.\n"
         "Example:  checksum *norm*",
     .json = "{ok: boolean, parameters: [{name: string, equal: boolean, hash: string, compared: "
             "integer (copies of parts that several ranks hold), copies: [{..Part, hash: string}], "
             "first_difference: {index: [integer], ranks: [integer], against: integer} | null}], "
             "unread?: [Unread]}",
     .completes = Operand::kModule,
     .words = {0, kAnyNumber},
     .action = OnValues{}},
    {.name = "dead",
     .operands = "[NAMES]",
     .summary = "rows that are all zero, and columns that hold one value",
     .help = "For tensors with at least two dims: the last dim indexes columns, all others rows. "
             "Vectors are skipped.\n"
             "Example:  dead *mlp*",
     .json =
         "{looked_at: integer, parameters: [{name: string, shape: [integer], zero_rows: integer, "
         "first_zero_rows: [integer], constant_columns: integer, first_constant_columns: "
         "[integer]}] (those that have some; at most 10 indices each), unread?: [Unread]}",
     .completes = Operand::kModule,
     .words = {0, kAnyNumber},
     .action = OnValues{}},
    {.name = "optim",
     .operands = "[NAMES]",
     .summary = "optimizer states with their parameters: shapes, dtypes, step, statistics",
     .help =
         "Requires a target with optimizer states. All other commands accept the states too, as "
         "tensors with names like\n"
         "optim.state.NAME.exp_avg.\n"
         "Examples:  optim model.norm.weight\n"
         "           stats optim.state.model.norm.weight.exp_avg_sq",
     .json =
         "{parameters: [{..Moments, shape: [integer], dtype: string, step: integer | null (null: "
         "unknown), states: [{..Moments, shape: [integer], dtype: string, state: string (exp_avg, "
         "..)}]}], unread?: [Unread]}",
     .completes = Operand::kModule,
     .words = {0, kAnyNumber},
     .action = OnValues{}},
    {.name = "grad",
     .operands = "[NAMES]",
     .summary = "gradients: of a text's loss, or of the last step",
     .help =
         "After `step`, and in a running job, the gradients of the last step: summed over all "
         "ranks and clipped, as the\n"
         "optimizer used them. With --of the gradients of `loss TEXT`, on any layout; the text "
         "must fit into one window.\n"
         "The gradients stay until the model changes, and other commands accept them as tensors "
         "grad.NAME. Each rank reads its shard.\n"
         "Examples:  grad *norm.weight --of \"The licenses\"\n"
         "           step 3; grad model.norm.weight; hist grad.model.norm.weight",
     .json =
         "{gradients: [{..Moments, rms: number | null}], of: string, norm: number | null (of all "
         "together), loss?: number | null (with --of), tokens?: integer}",
     .completes = Operand::kModule,
     .words = {0, kAnyNumber},
     .options = kGradOptions,
     .action = OnValues{}},
    {.name = "acts",
     .operands = "[MODULES]",
     .summary = "activations: statistics of the output of each unit in a forward pass",
     .help = "The forward pass runs on the data of the next step of a plan or a running job, or on "
             "the text that --of gives. rms and max_abs count\n"
             "finite values; zeros is the share of all values that are zero. Units are the "
             "embedding, each "
             "layer, the final norm and\n"
             "the head. The first unit whose output is not finite is named. cp and sequence "
             "parallelism pad "
             "a text to a length that\n"
             "their sizes divide; the padding counts too.\n"
             "Examples:  acts\n"
             "           acts model.layers.3 --of \"The licenses\"\n"
             "           acts | sort max_abs | head 3",
     .json =
         "{units: [{name: string, rms: number | null, max_abs: number | null, zeros: number | null "
         "(share of all values), nan: integer, inf: integer}], of: string, first_nonfinite: "
         "string | null (a unit)}",
     .completes = Operand::kModule,
     .words = {0, kAnyNumber},
     .options = kForwardOptions,
     .action = OnValues{}},
    {.name = "attention",
     .summary = "entropy of attention: how many tokens the heads of each layer read",
     .help =
         "The forward pass is that of `acts`. The entropy of a query's probabilities is 0 if it "
         "reads one token, and log(n) if it reads n tokens equally. Shown are each layer's mean "
         "over queries and heads, and the heads with the lowest and the highest mean. Heads "
         "whose entropy falls towards 0 are a sign of a divergence.\n"
         "Examples:  attention\n"
         "           attention --of \"The licenses\" | sort entropy --up",
     .json = "{layers: [{layer: integer, entropy: number | null, heads: [number | null]}], of: "
             "string}",
     .options = kForwardOptions,
     .action = OnValues{}},
    {.name = "experts",
     .summary = "a model with experts: the tokens that each layer routes to each expert",
     .help =
         "The tokens are those of the last step. With --of, or before the first step, they are "
         "those of a forward pass, as for `acts`. Names the busiest\n"
         "and the idlest expert of each layer with their load relative to the mean, and experts "
         "without tokens.\n"
         "Examples:  experts\n"
         "           experts --of \"The licenses\" | where max_over_mean > 2",
     .json =
         "{layers: [{layer: integer, tokens_per_expert: [number], max_over_mean: number | null, "
         "min_over_mean: number | null, entropy: number | null (of the load; 1: even), dead: "
         "[integer] (experts without tokens)}], of: string}",
     .words = {0, 0},
     .options = kForwardOptions,
     .action = OnValues{}},
    {.name = "top",
     .operands = "[N] [NAMES]",
     .summary = "the largest parameters by bytes, norm, magnitude, or Adam's last step",
     .help = "N: number of parameters (default 10). `update` is the L2 norm of Adam's last step "
             "divided by that of the weights, from\n"
             "the stored exp_avg, exp_avg_sq, step, lr, betas and eps; it does not include weight "
             "decay. Around 1e-3 is\n"
             "usual; a layer far above it moves too fast.\n"
             "Examples:  top 5 --by norm\n"
             "           top --by update *mlp*",
     .json =
         "{parameters: [{name: string, shape: [integer], bytes?: integer, norm?: number | null, "
         "rms?: number | null, max?: number | null, update?: number | null}] (each with the "
         "measure that `by` names), by: string, unread?: [Unread]}",
     .completes = Operand::kModule,
     .words = {0, kAnyNumber},
     .options = kTopOptions,
     .action = OnValues{}},
    {.name = "where",
     .operands = "NAMES",
     .summary = "draw which rank and which file holds which part of a tensor",
     .help = "Example:  where model.embed_tokens.weight",
     .json =
         "Where | {parameters: [Where]}; Where = {name: string, shape: [integer], dtype: string, "
         "parts: [{..Part, file: string | null (null: no file, or one of several), bytes: "
         "integer}]}",
     .completes = Operand::kParameter,
     .words = {1, kAnyNumber},
     .action = OnRanks{run_where}},
    {.name = "hist",
     .operands = "NAMES",
     .summary = "a histogram of a tensor's finite values",
     .help =
         "Bins of equal width from the smallest to the largest value. Nothing is gathered: counts "
         "are added over\n"
         "the ranks. Several tensors have one row each.\n"
         "Examples:  hist model.embed_tokens.weight --bins 40\n"
         "           hist *q_proj.weight",
     .json =
         "Histogram | {histograms: [Histogram]}; Histogram = {name: string, edges: [number] (one "
         "more than bins), counts: [integer], svg?: string}",
     .completes = Operand::kParameter,
     .words = {1, kAnyNumber},
     .options = kHistOptions,
     .action = OnValues{}},
    {.name = "heat",
     .operands = "NAME[SLICE]",
     .summary = "a tensor as a picture of blocks, darker where values are larger",
     .help = "The last dim runs to the right, the others down. Each rank adds its share of the "
             "blocks.\n"
             "Examples:  heat model.layers.0.mlp.down_proj.weight --of max\n"
             "           heat lm_head.weight[:64] --svg head.svg",
     .json =
         "{name: string, of: string (mean, max or signed), rows: integer (of the tensor), "
         "columns: integer, low: number, high: number, cells: [[number | null]] (null: the block "
         "has NaN or infinities), svg?: string}",
     .completes = Operand::kParameter,
     .words = {1, kAnyNumber},
     .options = kHeatOptions,
     .action = OnValues{}},
    {.name = "plot",
     .operands = "[NAMES]",
     .summary = "one number per tensor as bars, in the order of names",
     .help = "Shows what changes from layer to layer. With names of metrics it draws the curves of "
             "the open runs; behind a pipe, curves of the fields of rows.\n"
             "Examples:  plot *q_proj.weight\n"
             "           plot --by layer --of norm --svg norms.svg\n"
             "           plot loss grad_norm\n"
             "           metrics | tail 500 | plot loss",
     .json = "{of: [string], curves: [{run: string, key: string, steps: integer, min: number | "
             "null, max: number | null, last: number | null}], svg?: string} | {of: string, "
             "parameters: [{name: string, norm?: number | null, rms?: number | null, "
             "max?: number | null, std?: number | null}] (each with the number that `of` names), "
             "svg?: string, unread?: [Unread]}",
     .completes = Operand::kModule,
     .words = {0, kAnyNumber},
     .options = kPlotOptions,
     .action = OnValues{},
     .of_rows = plot_rows},
    {.name = "print",
     .operands = "NAMES",
     .summary = "values, of the whole tensor or of a slice as in Python",
     .help =
         "Gathers the parameter from all ranks that hold a part of it. Beyond 1 000 elements the "
         "middle of\n"
         "each dim is left out; JSON has all values, up to a million.\n"
         "Examples:  print model.norm.weight\n"
         "           print model.embed_tokens.weight[0:4, :8]\n"
         "           print model.embed_tokens.weight[-1]\n"
         "           print *norm.weight[:3]\n"
         "           print optim.param_groups.0.lr\n"
         "           print *norm.weight --to norms.safetensors",
     .json = "Printed | {tensors: [Printed]} | {name: string, value: any (of a value that is not a "
             "tensor)} | {path: string (with --to), tensors: [string]}; Printed = {name: string, "
             "shape: [integer], dtype: string, values: any (nested "
             "lists; \"nan\", \"inf\" and \"-inf\" where JSON has no number)}",
     .completes = Operand::kParameter,
     .words = {1, kAnyNumber},
     .options = kPrintOptions,
     .action = OnValues{}},
    {.name = "memory",
     .summary = "bytes that each rank holds: shards, full tensors, gradients, optimizer states",
     .help = "Sharded bytes include FSDP's padding. For a checkpoint on disk they are the bytes of "
             "parameters in the files that each\n"
             "rank wrote, not those that it held in the job: only the first replica is saved.\n"
             "A checkpoint's model is loaded by the first command that runs it, such as loss. "
             "The columns\n"
             "gradients, optimizer and model are left out if they are 0 on all ranks.",
     .json = "{ranks: [RankBytes], at_rest: boolean}",
     .action = OnRanks{run_memory}},
};

}  // namespace

std::span<const Command> tensor_rows() { return kTensorRows; }

}  // namespace am::inspect
