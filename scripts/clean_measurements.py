#!/usr/bin/env python3
"""Converts published training runs to plans/measured/runs.csv, to which the time model is fitted.

    scripts/clean_measurements.py                          scripts/measurements/ to plans/measured/runs.csv
    scripts/clean_measurements.py mine.csv -o clean.csv    rows of the form of scripts/measurements/runs.csv

Each source has its own words for frameworks, precisions and recomputation, and omits settings that it considers
obvious. Models are identified by name (scripts/measurements/models.csv lists sizes) or, in Megatron's functional tests,
by their arguments. The output has one column for each quantity, as a number in fixed units; lib/docs/predictions.md
lists the columns. Rows whose model is unknown, or whose layout is incomplete, are dropped and counted by reason.
"""

import argparse
import collections
import csv
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RAW = ROOT / "scripts" / "measurements"

IMPLEMENTATIONS = {
    "torchtitan": "torchtitan",
    "NeMo AutoModel (FSDP2)": "torchtitan",
    "llm-foundry/composer FSDP1": "llm-foundry",
    "Megatron-Core": "megatron",
    "Megatron-Kwai": "megatron",
    "NeMo/Megatron-Core": "nemo",
    "Megatron-Bridge": "megatron-bridge",
    "Megatron-DeepSpeed": "megatron-deepspeed",
    "InternEvo": "internevo",
    "Galvatron (Megatron modules)": "galvatron",
    "MaxText (JAX)": "maxtext",
    "PaxML (JAX)": "paxml",
}
# Kinds of measured memory: a text that the column mem_metric of the input contains, and the name of
# the kind in the output.
METRICS = (
    ("allocated", "allocated"),
    ("reserved", "reserved"),
    ("nvidia-smi", "process"),
    ("model states", "states"),
    ("forward-held", "held activations"),
    ("activation peak", "activation peak"),
)
MODEL_COLUMNS = (  # columns of models.csv and their names in the output
    ("hidden_size", "hidden"), ("layers", "layers"), ("heads", "heads"), ("key_value_heads", "key_value_heads"),
    ("qk_head_dim", "qk_head_dim"), ("v_head_dim", "v_head_dim"), ("q_lora_rank", "q_lora_rank"),
    ("kv_lora_rank", "kv_lora_rank"), ("rope_head_dim", "rope_head_dim"), ("gated", "gated"),
    ("intermediate_size", "mlp_width"), ("experts", "experts"), ("experts_per_token", "experts_per_token"),
    ("expert_size", "expert_width"), ("shared_size", "shared_width"), ("moe_layers", "moe_layers"),
    ("vocab_size", "vocabulary"), ("tied", "tied"))  # fmt: skip
MODEL = (*(name for _, name in MODEL_COLUMNS), "biases", "positions")
COLUMNS = (
    "id", "source", "group", "model", "test_job", "site", *MODEL,
    "gpu", "gpu_memory_gb", "nic_gbps", "implementation", "format", "reduce_bytes", "more_gradient_bytes", "unfused_attention",
    "zero_stage", "dp_replicate", "dp_shard", "cp", "tp", "sequence_parallel", "pp", "virtual_stages", "ep", "expert_tp",
    "seq_len", "micro_batch", "micro_batches", "recompute", "recomputed_layers",
    "recompute_modules", "offloaded_activations",
    "step_seconds", "memory_gib", "memory_metric", "memory_stage", "out_of_memory")  # fmt: skip


class LeftOut(Exception):
    """Raised with the reason why a row is dropped."""


class Row(dict):
    """A row as published. number() reads a cell as a number."""

    def number(self, column, otherwise=None):
        try:
            value = float(self[column])
        except ValueError:
            return otherwise
        return value if math.isfinite(value) else otherwise


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [Row(collections.defaultdict(str, row)) for row in csv.DictReader(file)]


def models():
    known = {}
    for row in read(RAW / "models.csv"):
        sizes = {name: row.number(column, 0.0) for column, name in MODEL_COLUMNS}
        known[row["model"]] = {**sizes, "biases": 0.0, "positions": 0.0}
    return known


def number_of(text, otherwise):
    found = re.match(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?", text)
    return float(found.group()) if found else otherwise


def model_of_notes(notes, seq_len):
    """Returns the sizes of the model of a Megatron test job from its notes, for example
    {"L": "32", "h": "6144", "heads": "48"}. Sizes that are not in the notes are Megatron's defaults.
    Returns None if the notes lack a required size, or if the model has latent attention."""
    given = lambda key, otherwise: number_of(notes.get(key, ""), otherwise)  # noqa: E731
    hidden, layers, heads = given("h", 0.0), given("L", 0.0), given("heads", 0.0)
    if min(hidden, layers, heads) <= 0 or notes.get("mla") == "True":
        return None
    gated = notes.get("swiglu") == "True"
    width = given("ffn", math.floor(hidden * 8.0 / 3.0 / 64.0) * 64.0 if gated else 4.0 * hidden)
    words = notes.get("vocab", "")
    experts = given("E", 0.0)
    head_dim = given("kvch", math.floor(hidden / heads))
    return {
        "hidden": hidden, "layers": layers, "heads": heads, "key_value_heads": given("kv", heads), "qk_head_dim": head_dim,
        "v_head_dim": head_dim, "q_lora_rank": 0.0, "kv_lora_rank": 0.0, "rope_head_dim": 0.0, "gated": float(gated),
        "mlp_width": width, "experts": experts, "experts_per_token": given("topk", 2.0) if experts > 0 else 0.0,
        "expert_width": given("moe_ffn", width) if experts > 0 else 0.0, "shared_width": 0.0,
        "moe_layers": layers if experts > 0 else 0.0,
        "vocabulary": 256000.0 if words.startswith("GPTSentence") else 32000.0 if words.startswith("Llama2") else 50257.0,
        "tied": float(notes.get("untie") != "True"), "biases": float(notes.get("bias") == "yes"),
        "positions": 0.0 if notes.get("pos") else seq_len,
    }  # fmt: skip


def precision_of(text):
    text = text.lower()
    if "nvfp4" in text:
        return "fp4"
    if "fp8" in text or "float8" in text:
        return "fp8"
    return text if text in ("fp32", "fp16") else "bf16"


class Cleaner:
    """Converts one published row."""

    def __init__(self, row, known):
        self.row = row
        self.notes = dict(word.split("=", 1) for word in row["notes"].split(" ") if "=" in word)
        self.is_test = row["task"] == "pretrain CI"
        self.out = {column: row[column] for column in ("id", "source", "group", "model")}
        named = ":" not in row["model"]
        self.model = known.get(row["model"]) if named else model_of_notes(self.notes, row.number("seq_len", 0.0))

    def clean(self):
        row, out = self.row, self.out
        if self.model is None:
            raise LeftOut(f"the shape of {row['model']} is not known")
        if row["task"] in ("sft", "lora"):
            raise LeftOut("fine-tuning")
        out.update(self.model)
        if self.is_test:
            # The speed of tiny models depends on how fast the host launches kernels. Jobs that ran on
            # one pool of hosts therefore get the same `site`.
            out["test_job"] = 1
            out["site"] = f"test {self.notes.get('env', '?')}" + (" 1node" if row["model"].endswith("_1node") else "")
        self.add_gpu()
        self.add_layout()
        self.add_batch()
        self.add_numerics()
        self.add_results()
        return out

    def add_gpu(self):
        # A row with memory is useful even without a GPU name: bytes do not depend on the GPU.
        self.gpu_is_known = self.row["gpu"] not in ("", "unknown")
        if not self.gpu_is_known and self.row.number("peak_mem_gib") is None:
            raise LeftOut("the GPU is not known")
        self.out["gpu"] = self.row["gpu"] if self.gpu_is_known else "a100-sxm"
        self.out["gpu_memory_gb"] = self.row.number("gpu_mem_gb", "")
        self.out["nic_gbps"] = self.row.number("internode_gbps_per_gpu", "")

    def add_layout(self):
        row, out = self.row, self.out
        for column, name in (("tp", "tp"), ("pp", "pp"), ("cp", "cp"), ("ep", "ep"), ("vpp", "virtual_stages")):
            out[name] = max(1.0, math.floor(row.number(column, 1.0)))
        out["sequence_parallel"] = float(row.number("sp", 0.0) > 0.0)
        replica = out["tp"] * out["pp"] * out["cp"]
        ranks = row.number("num_gpus", max(8.0, replica) if self.is_test else 0.0)
        out["seq_len"] = row.number("seq_len", 0.0)
        self.is_counted = row.number("num_gpus") is not None or row.number("dp") is not None
        cut = row.number("zero_stage", 0.0) > 0.0  # states are sharded, so the number of ranks must be known
        is_open = not row["tp"] and not row["pp"] and not self.is_test
        if is_open or ranks < replica or out["seq_len"] <= 0.0 or (cut and not self.is_counted):
            raise LeftOut("the layout is incomplete")
        self.dp = row.number("dp", ranks / replica)
        self.world = replica * self.dp
        out["dp_replicate"] = row.number("dp_replicate", 1.0)
        out["dp_shard"] = self.dp / out["dp_replicate"]
        group = re.search(r"group (\d+)", row["strategy"])
        if group and 1.0 <= float(group[1]) <= self.dp:  # "ZeRO-1 group 8": sharded over 8 ranks, replicated over the others
            out["dp_shard"] = float(group[1])
            out["dp_replicate"] = self.dp / out["dp_shard"]
        out["expert_tp"] = row.number("etp", 1.0 if self.model["moe_layers"] > 0 else out["tp"])
        zero = row.number("zero_stage", 3.0 if "zero2" in row["strategy"] else 0.0)
        out["zero_stage"] = min(max(zero, 0.0), 3.0)

    def add_batch(self):
        row, out = self.row, self.out
        size, count, whole = (row.number(column) for column in ("mbs", "grad_accum", "gbs"))
        if not (size or count or whole or row.number("peak_mem_gib")):
            raise LeftOut("the layout is incomplete")
        out["micro_batch"] = 1.0 if size is None else size
        out["micro_batches"] = 1.0 if count is None else count
        if count is None and whole is not None:
            # Without a gradient accumulation count, the global batch is divided into micro-batches
            # of the row's micro-batch size, or of one sequence if the row has no such size.
            out["micro_batches"] = max(1.0, math.floor(whole / (out["micro_batch"] * self.dp) + 0.5))
        elif whole is not None and self.is_counted and out["micro_batch"] * count * self.dp != whole:
            # The step time covers the whole batch, so the global batch size takes precedence over
            # the gradient accumulation count.
            out["micro_batches"] = whole / (out["micro_batch"] * self.dp)
        if self.is_counted and whole is not None and out["micro_batch"] * out["micro_batches"] * self.dp != whole:
            raise LeftOut("micro-batches do not make the batch")
        if out["micro_batches"] != math.floor(out["micro_batches"]):
            raise LeftOut("micro-batches do not make the batch")
        self.sequences = whole if whole is not None else out["micro_batch"] * out["micro_batches"] * self.dp

    def add_numerics(self):
        row, out = self.row, self.out
        if row["framework"] not in IMPLEMENTATIONS:
            raise LeftOut(f"the framework {row['framework']} is not known")
        is_eager = row["framework"] == "torchtitan" and row["compile"] == "0"
        out["implementation"] = "pytorch" if is_eager else IMPLEMENTATIONS[row["framework"]]
        out["format"] = precision_of(row["precision"])
        out["reduce_bytes"] = 2.0 if "PURE" in row["precision"] else ""
        out["more_gradient_bytes"] = 4.0 if "extra 4 B/param" in row["notes"] else ""
        # Megatron's tests in the environment "dracooci" run in a container without fused attention: runs
        # there that set no attention kernel use exactly as many bytes as runs that set unfused attention.
        is_unfused_container = "dracooci" in self.notes.get("env", "") and not self.notes.get("attn")
        if self.notes.get("attn") == "unfused" or self.notes.get("impl") == "local" or is_unfused_container:
            out["unfused_attention"] = 1

    def add_results(self):
        row, out = self.row, self.out
        seconds, rate = row.number("step_time_s"), row.number("tok_s_gpu")
        if seconds is None and rate:
            seconds = self.sequences * out["seq_len"] / (rate * (out["pp"] * self.dp * out["cp"] * out["tp"]))
        # If the row does not state the number of ranks, the number of micro-batches is a guess.
        if seconds is not None and self.gpu_is_known and self.is_counted:
            out["step_seconds"] = seconds
        self.add_recomputation()
        metric = next((name for text, name in METRICS if text in row["mem_metric"]), "")
        if metric and row.number("peak_mem_gib") is not None:
            out["memory_gib"] = row.number("peak_mem_gib")
            out["memory_metric"] = metric
        if row["mem_rank"] == "rank7" or ("last" in row["mem_rank"] and "first" not in row["mem_rank"]):
            out["memory_stage"] = "last"
        elif row["mem_rank"] == "rank0":
            out["memory_stage"] = "first"
        if row["peak_mem_gib"] == "OOM":
            out["out_of_memory"] = 1

    def add_recomputation(self):
        text, out = self.row["ac"], self.out
        offloaded = re.search(r"alpha=([\d.]+)", self.row["notes"])
        if offloaded:
            out["offloaded_activations"] = float(offloaded[1])
        elif text == "ours":
            raise LeftOut("the fraction of offloaded activations is not known")
        if text.startswith("balanced"):  # Megatron-Kwai recomputes norms and SwiGLU
            out["recompute_modules"] = "layernorm mlp_act"
        elif text.startswith("full"):
            out["recompute"] = "full"
        elif "every" in text:  # every second layer
            out["recompute"], out["recomputed_layers"] = "full", 0.5
        elif text.startswith("selective(op)"):
            out["recompute"] = "selective"
        elif text or "step_seconds" not in out:
            out["recompute"] = "off"
        # In all other cases the source does not state the recomputation. The run fitted into
        # memory, so an empty cell means the least recomputation with which it fits.


def text_of(value):
    if isinstance(value, str):
        return value
    return repr(int(value)) if value == int(value) else repr(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=pathlib.Path, default=RAW / "runs.csv", help="runs as published")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "plans" / "measured" / "runs.csv")
    arguments = parser.parse_args()
    known = models()
    left_out = collections.Counter()
    rows = []
    for row in read(arguments.rows):
        try:
            rows.append(Cleaner(row, known).clean())
        except LeftOut as why:
            left_out[str(why)] += 1
    with open(arguments.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        # Cells whose value is 0 are written as empty cells.
        writer.writerows([text_of(row.get(column) or "") for column in COLUMNS] for row in rows)
    print(f"{len(rows)} runs, {sum('step_seconds' in row for row in rows)} of them timed")
    for why, count in sorted(left_out.items()):
        print(f"  left out {count}: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
