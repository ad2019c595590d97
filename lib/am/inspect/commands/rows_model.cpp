// Command table, second part: commands that gather, run, write and compare models, from `unshard`
// to `let`.
#include "am/inspect/commands/table.h"

namespace am::inspect {
namespace {

constexpr Option kByLayer[] = {{"--by", "parameter|layer", "one row per parameter, or per layer"}};
constexpr Option kUnshardOptions[] = {
    {"--force", "", "even if the tensors do not fit into this machine's memory"}};
constexpr Option kTextOptions[] = {kForceModel};
constexpr Option kTokensOptions[] = {
    {"--special", "", "with the tokens that the tokenizer puts around a text"},
    {"--split", "", "split special tokens in the text like other text"}};
constexpr Option kGenerateOptions[] = {
    {"--tokens", "N", "number of new tokens (default 100)"},
    {"--temperature", "T", "0: always the most likely token (default 0.8)"},
    {"--top-k", "K", "sample from the K most likely tokens; 0: all"},
    {"--top-p", "P", "sample from the most likely tokens whose probabilities add up to P; 1: all"},
    {"--seed", "S", "random seed (default 0)"},
    {"--chat", "", "TEXT is a message of the user: put it into the model's chat template"},
    {"--past-end", "", "go on after the model's end token"},
    kForceModel,
};
constexpr Option kSameOptions[] = {
    {"--flat", "", "a row for each tensor; the default is one for equal layers"},
};
constexpr Option kExportOptions[] = {
    {"--only", "NAMES",
     "only these tensors, in one file; DIR is its path, which ends in .safetensors or .npy"},
    {"--force", "", "with --only: replace an existing file"},
    {"--format", "hf|safetensors|dcp|torchtitan|olmo|megatron", "default hf"},
    {"--dtype", "float32|bfloat16|float16", "or fp32, bf16, fp16; default: as stored"},
    {"--optimizer", "",
     "also the optimizer's states, step counts and settings; not for hf and safetensors"},
    {"--merge", "",
     "merge LoRA adapters into the weights, for hf; otherwise they are written in PEFT's format"},
};

constexpr Command kModelRows[] = {
    {.name = "unshard",
     .operands = "MODULE|PARAM|all",
     .summary = "gather full tensors on every rank, until `reshard`; shows memory before and after",
     .help =
         "On a plan this is the all-gather of training: whole FSDP units (a decoder layer, the "
         "embedding, the head) are\n"
         "gathered over dp_shard_cp. The named parameters that are sharded over tp are gathered "
         "over tp as well. A\n"
         "checkpoint's tensors are assembled from their shards in memory. Repeating it has no "
         "effect.\n"
         "Examples:  unshard model.layers.0\n"
         "           unshard all",
     .json =
         "{parameters: [string] (names), before: [RankBytes], after: [RankBytes], boxes_before?: "
         "[Part] (of one parameter), boxes_after?: [Part], note: string}",
     .completes = Operand::kModule,
     .words = {1, 1},
     .options = kUnshardOptions,
     .action = OnValues{}},
    {.name = "reshard",
     .operands = "[MODULE|PARAM|all]",
     .summary = "free the full tensors again; shows memory before and after",
     .help = "Without a name, frees all unsharded tensors.\n"
             "Example:  reshard model.layers.0",
     .json =
         "{parameters: [string] (names), before: [RankBytes], after: [RankBytes], boxes_before?: "
         "[Part] (of one parameter), boxes_after?: [Part]}",
     .completes = Operand::kModule,
     .words = {0, 1},
     .action = OnValues{}},
    {.name = "tokens",
     .operands = "TEXT|FILE",
     .summary = "the tokens of a text: ids, tokens, bytes",
     .help = "Uses the tokenizer that the plan or the folder names, or that `set tokenizer` "
             "selects.\n"
             "Example:  tokens \"The licenses for most software\" --special",
     .json = "{tokenizer: string, tokens: [integer] (ids), pieces: [string] (as the vocabulary "
             "writes them), bytes: [string] (hexadecimal), file: string | null (null: a text)}",
     .completes = Operand::kPath,
     .words = {1, kAnyNumber},
     .options = kTokensOptions,
     .action = OnRanks{run_tokens}},
    {.name = "loss",
     .operands = "TEXT|FILE",
     .summary = "mean cross-entropy of predicting each next token",
     .help =
         "The first token has nothing before it and is not predicted. Texts are cut into windows "
         "of the\n"
         "model's max_position_embeddings tokens, or of 2048, whichever is less. The tokenizer is "
         "the one that the\n"
         "plan or the folder names, or that `set tokenizer` selects. A single word that names a "
         "file of at most 64 MiB is read as\n"
         "that file; a word that only looks like a file's name is a text if it is quoted.\n"
         "Examples:  loss \"The licenses for most software\"\n"
         "           loss /usr/share/common-licenses/GPL-3",
     .json = "{loss: number | null (natural logarithm; null: not finite), tokens: integer, "
             "predictions: integer (tokens - 1), perplexity: number | null, file: string | null "
             "(null: a text)}",
     .completes = Operand::kPath,
     .words = {1, kAnyNumber},
     .options = kTextOptions,
     .action = OnValues{}},
    {.name = "logprob",
     .operands = "TEXT|FILE",
     .summary = "each token's log-probability, given the tokens before it",
     .help = "Natural logarithms. The first token is not predicted: its value is `-`, in JSON "
             "null.\n"
             "Also works while parameters are unsharded.\n"
             "Example:  logprob \"The GNU General Public License\"",
     .json = "{tokens: [integer] (ids), logprobs: [number | null] (as long, null first), total: "
             "number | null, file: string | null (null: a text)}",
     .completes = Operand::kPath,
     .words = {1, kAnyNumber},
     .options = kTextOptions,
     .action = OnValues{}},
    {.name = "generate",
     .operands = "TEXT",
     .summary = "the model's continuation of a text",
     .help =
         "Samples with a separate random generator: the same seed gives the same text on any "
         "layout. The text ends at the\n"
         "model's end token (eos_token_id of generation_config.json or config.json); Ctrl-C ends "
         "it earlier. Control "
         "characters are replaced on\n"
         "a terminal; JSON has them all.\n"
         "Example:  generate \"The \" --tokens 200 --temperature 0.8",
     .json =
         "{prompt: string, text: string (the continuation), tokens: [integer] (its ids, the "
         "end token included), ended: boolean (by an end token), interrupted: boolean (by Ctrl-C)}",
     .completes = Operand::kText,
     .words = {1, kAnyNumber},
     .options = kGenerateOptions,
     .action = OnValues{}},
    {.name = "export",
     .operands = "DIR",
     .summary = "write a folder for transformers, PyTorch or a training framework",
     .help =
         "transformers loads hf; safetensors are the weights alone, without a config. The others "
         "are "
         "folders of\n"
         "torch.distributed.checkpoint, made from a checkpoint on disk: dcp names tensors "
         "model.NAME; torchtitan, olmo and\n"
         "megatron use the names and rows of that framework. In a running job, the export needs "
         "--write.\n"
         "With --optimizer, that framework can continue training from the same optimizer states, "
         "which keep their dtype.\n"
         "One parameter, or a few MiB of its rows, is in memory at a time. The folder appears "
         "whole or not at all; an\n"
         "existing one must be empty. Ctrl-C ends the export, and leaves nothing.\n"
         "Examples:  export llama-hf --dtype bfloat16\n"
         "           export norms.safetensors --only *norm.weight",
     .json = "{path: string, files: [string], bytes: integer, notes?: [string] (about the "
             "optimizer)} | "
             "{path: string (with --only), tensors: [string]}",
     .completes = Operand::kPath,
     .words = {1, 1},
     .options = kExportOptions,
     .action = OnValues{}},
    {.name = "verify",
     .summary = "read all files of the checkpoint and check that they are undamaged",
     .help =
         "In checkpoints of am-run every checksum is compared; in folders of "
         "torch.distributed.checkpoint every\n"
         "stored part must have the dtype and shape that .metadata lists. Whether the parts cover "
         "the tensors is checked when a\n"
         "checkpoint is opened. Exit status 3 if something is wrong; Ctrl-C ends the command.",
     .json = "{ok: boolean, problems: [Problem], more?: integer (that are not listed)}",
     .action = OnRanks{run_verify}},
    {.name = "diff",
     .operands = "[A] B",
     .summary = "how checkpoint B's parameters differ from A's, or from the open one's",
     .help =
         "Lists names that only one side has, and differences of shape. For the other parameters "
         "it prints the\n"
         "largest |a - b|, and the largest |a - b| divided by the larger of |a| and |b|, the most "
         "different first. Equal parameters are counted. A and B may be\n"
         "anything that am-repl opens as weights; `only here` marks parameters that only A (or "
         "the open target) has. A\n"
         "few MiB of both are read at a time; in a session on ranks, each rank reads the parts "
         "that "
         "it holds. Ctrl-C ends the command.\n"
         "Examples:  diff runs/quickstart/checkpoints/step-200\n"
         "           diff step-200 step-400 --by layer",
     .json =
         "{parameters: [{name: string, status: 'equal' | 'different' | 'dtype' | 'shape' | 'only "
         "here' | 'only there' | 'unreadable', max_abs: number | null, relative: number | null}] "
         "(null: not finite, or nothing to compare), unread?: [Unread]}",
     .completes = Operand::kPath,
     .words = {1, 2},
     .options = kByLayer,
     .action = OnValues{}},
    {.name = "same",
     .operands = "TARGET",
     .summary = "whether another checkpoint's tensors are equal bit for bit; exit status 3 if not",
     .help =
         "Compares parameters and optimizer states. If both are am-run's, with the same sharding, "
         "their stored\n"
         "checksums are compared and no value is read (`verify` checks a checkpoint's values\n"
         "against its checksums).\n"
         "Example:  same backup/step-200",
     .json =
         "{same: boolean, tensors: [{name: string, status: 'same' | 'different' | 'dtype' | "
         "'shape' | 'only here' | 'only there' | 'unreadable', by: 'checksums' | 'values' | null "
         "(null: nothing could be compared)}], unread?: [Unread]}",
     .completes = Operand::kPath,
     .words = {1, 1},
     .options = kSameOptions,
     .action = OnValues{}},
    {.name = "drift",
     .operands = "A [B]",
     .summary = "how far parameters moved from checkpoint A to B, or to the open one",
     .help =
         "The L2 norm of the change divided by that of A's values, largest first, and the cosine "
         "of the angle between A and B.\n"
         "A few MiB of both are read at a time; in a session on ranks, each rank reads the parts "
         "that it holds. Ctrl-C ends the command.\n"
         "Examples:  drift runs/quickstart/checkpoints/step-200\n"
         "           drift step-200 step-400 --by layer",
     .json = "{parameters: [Drift], total: Drift, left_out: [string] (on only one side, or of two "
             "shapes), unread?: [Unread]}; Drift = {name: string, relative: number | null, moved: "
             "number | null, before: number | null, after: number | null, cosine: number | null "
             "(null: not finite)}",
     .completes = Operand::kPath,
     .words = {1, 2},
     .options = kByLayer,
     .action = OnValues{}},
    {.name = "fits",
     .operands = "CONFIG|PLAN",
     .summary = "check that names and shapes of the parameters are those of a model",
     .help =
         "Compares with a config.json (or its folder), or a plan's model: lists parameters that "
         "are missing, have\n"
         "another shape or are quantised or packed, and those that the model does not have. No "
         "values are read. Exit\n"
         "status 3 if something does not fit.\n"
         "Example:  fits plans/quickstart.toml",
     .json = "{ok: boolean, misfits: [{name: string, what: string}]}",
     .completes = Operand::kPath,
     .words = {1, 1},
     .action = OnRanks{run_fits}},
    {.name = "set",
     .operands = "[KEY VALUE]",
     .summary =
         "change a setting of this session: dtype, tokenizer, digits; without KEY, show all values",
     .help = "dtype      a checkpoint's compute dtype: float32 (default), bfloat16 or float16\n"
             "tokenizer  bytes, or a tokenizer.json, tokenizer.model or tekken.json\n"
             "digits     significant digits of printed values (default 4)\n"
             "optimizer.lr  the peak learning rate of a running job; needs --write\n"
             "Example:  set tokenizer models/llama/tokenizer.json",
     .json = "{key: string, value: string | number, step?: integer} | {settings: [{key: string, "
             "value: string | integer | null, legal: string}]}",
     .keywords = "digits dtype tokenizer optimizer.lr",
     .words = {0, 2},
     .action = OnValues{}},
    {.name = "let",
     .operands = "[NAME = NAMES]",
     .summary = "define a short name for tensors or slices; without operands: list the short names",
     .help =
         "A short name may be sliced again. It names the tensors that NAMES matched when it was "
         "defined.\n"
         "Examples:  let w = model.layers.0.mlp.down_proj.weight[:, :8]\n"
         "           stats w w[0:4]",
     .json = "{name: string, stands_for: string, tensors: integer} | {aliases: [{name: string, "
             "stands_for: string}]}",
     .completes = Operand::kParameter,
     .words = {0, kAnyNumber},
     .action = OnRanks{run_let}},
};

}  // namespace

std::span<const Command> model_rows() { return kModelRows; }

}  // namespace am::inspect
