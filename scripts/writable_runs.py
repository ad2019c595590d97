#!/usr/bin/env python3
"""Counts the published pre-training runs that a plan can express exactly as they ran.

    scripts/writable_runs.py RUNS.csv                    the share, and the reasons of all other runs
    scripts/writable_runs.py RUNS.csv --list MXFP8       the runs with this reason
    scripts/writable_runs.py RUNS.csv --json             the same, with each run's reasons and first violated rule
    scripts/writable_runs.py RUNS.csv --write FOLDER     keeps the plans that say all that their rows say

RUNS.csv has the columns of scripts/measurements/runs.csv. Each row becomes a plan, which `am-plan check` judges. A
setting that a row states and that no key of a plan can express is a reason too: nothing is rounded to a near setting.
Empty cells keep the plan's defaults, except those without which no framework starts, such as the micro-batch. Reasons
that begin with "source:" are such empty cells, and cells that contradict each other; no tool can write these runs. A
row that has a reason is still judged, by the nearest plan and, if its family is unknown, by a known family of its
sizes, so that all its reasons are known. `am-plan schema` decides which strategies, keys and values exist: a reason
vanishes when the schema lists the missing value.

Kernels, dispatchers, containers, data and a router that is forced into balance are not judged: [cluster] names an
implementation, and predictions assume even routing. FP8 without a recipe's name is Transformer Engine's default,
delayed scaling. ZeRO-3 of every framework but Megatron-FSDP is fsdp2. DDP, ZeRO-1 and ZeRO-2 are Megatron's data
parallelism, with 16-bit parameters beside the optimizer's float32 copy: the strategy megatron or, if the schema lacks
it, megatron_fsdp for rows whose axes megatron_fsdp has.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from clean_measurements import IMPLEMENTATIONS, ROOT, Cleaner, LeftOut, Row, models, read  # noqa: E402

BATCH = 128  # number of plans that one process of am-plan checks

# Frameworks that clean_measurements.py leaves out, and the implementation whose layers they run.
MORE_IMPLEMENTATIONS = {
    "Megatron-Kwai": "megatron",
    "Megatron-LM": "megatron",
    "Megatron-LM ZB": "megatron-zero-bubble",
    "Megatron-Core MoE": "megatron",
    "MegaScale": "megatron",
    "Primus-Megatron": "megatron-zero-bubble",
    "Sailor (Megatron-DeepSpeed)": "megatron-deepspeed",
}
# Models by their published names, whose configs are in plans/models/ under other names.
CONFIGS = {
    "Nemotron_3_Nano": "nemotron-3-nano-30b-a3b",
    "Nemotron_3_Super": "nemotron-3-super-120b-a12b",
    "Nemotron V3 Super 120B (26.02)": "nemotron-3-super-120b-a12b",
    "Nemotron_3_Ultra": "nemotron-3-ultra-550b-a55b",
    "Nemotron V3 Ultra 550B (26.04)": "nemotron-3-ultra-550b-a55b",
}
# Precisions as published, in lower case: dtype of the parameters that compute, recipe of products in 8 or 4 bits.
PRECISIONS = {
    "bf16": ("bfloat16", "none"),
    "bf16 o2": ("bfloat16", "none"),
    "bf16/pure": ("bfloat16", "none"),
    "amp_bf16/default": ("bfloat16", "none"),
    "bf16, fp32 grad accumulation": ("bfloat16", "none"),
    "fp16": ("float16", "none"),
    "fp16 mixed": ("float16", "none"),
    "fp8": ("bfloat16", "delayed"),
    "amp_fp8/default": ("bfloat16", "delayed"),
    "fp8-cs": ("bfloat16", "tensorwise"),
    "float8": ("bfloat16", "tensorwise"),  # torchtitan's only recipe in 2024
    "float8 tensorwise": ("bfloat16", "tensorwise"),
    "bf16+float8 tensorwise linears": ("bfloat16", "tensorwise"),
    "bf16+float8 tensorwise, fp8 allgather": ("bfloat16", "tensorwise"),
    "float8 rowwise": ("bfloat16", "rowwise"),
    "mxfp8": ("bfloat16", "mxfp8"),
    "fp8-mx": ("bfloat16", "mxfp8"),
    "nvfp4": ("bfloat16", "nvfp4"),
}
RECIPES = {"delayed": "FP8 delayed scaling", "block": "FP8 blockwise scaling", "mxfp8": "MXFP8", "nvfp4": "NVFP4"}
SCHEDULES = {  # pp_schedule as published: schedule and virtual stages of a plan
    "ZBV": ("zbv_zero_bubble", 2),
    "ZB1P": ("interleaved_zero_bubble", 1),  # PyTorch's interleaved zero-bubble class implements the paper's ZB1P
    "ZB-1p(H1)": ("interleaved_zero_bubble", 1),
}
MODULES = {  # modules in "selective(...)", and their names in Megatron's recompute_modules
    "attn core": "core_attn",
    "norm": "layernorm",
    "layernorm": "layernorm",
    "act": "moe_act",
    "moe": "moe",
    "shared_expert": "shared_experts",
    "mlp_act": "mlp_act",
}
MEGATRON = "Megatron's data parallelism with pp/sp/etp"
FLOAT16 = "float16 with float32 master weights"
PARTIAL = "partial ZeRO group"
BY_MODULE = "recompute by module"
NO_BATCH = "source: batch"
NO_MICRO_BATCH = "source: micro-batch"
RULES = {  # violated rules whose reason is not their own name
    "pp.schedule": "fewer micro-batches than stages",
    "hsdp.strategy": PARTIAL,
    "pp.layers": "stages of the embedding or the head alone",
    "pp.virtual_stages": "zero bubble with one stage per rank",
    "model.heads": "source: heads do not divide the width",
    "mesh.ep": "source: ep does not divide the ranks",
    "cluster.gpu": "GPU that is not known",
}

HF = {
    "hidden_size": "hidden", "num_hidden_layers": "layers", "num_attention_heads": "heads",
    "num_key_value_heads": "key_value_heads", "head_dim": "qk_head_dim", "intermediate_size": "mlp_width",
    "vocab_size": "vocabulary", "max_position_embeddings": "positions"}  # fmt: skip
EXPERTS = {"num_experts_per_tok": "experts_per_token", "moe_intermediate_size": "expert_width"}
DEEPSEEK = {
    **{key: size for key, size in HF.items() if key != "head_dim"}, **EXPERTS, "n_routed_experts": "experts",
    "q_lora_rank": "q_lora_rank", "kv_lora_rank": "kv_lora_rank", "qk_rope_head_dim": "rope_head_dim",
    "qk_nope_head_dim": "nope_head_dim", "v_head_dim": "v_head_dim", "first_k_dense_replace": "dense_layers",
    "n_shared_experts": "shared_experts"}  # fmt: skip
GPT2 = {
    "n_embd": "hidden", "n_layer": "layers", "n_head": "heads", "n_inner": "mlp_width", "vocab_size": "vocabulary",
    "n_positions": "positions"}  # fmt: skip
GPT_NEO = {
    "hidden_size": "hidden", "num_layers": "layers", "num_heads": "heads", "intermediate_size": "mlp_width",
    "vocab_size": "vocabulary", "max_position_embeddings": "positions"}  # fmt: skip
OPT = {
    "hidden_size": "hidden", "num_hidden_layers": "layers", "num_attention_heads": "heads", "ffn_dim": "mlp_width",
    "vocab_size": "vocabulary", "max_position_embeddings": "positions"}  # fmt: skip
BLOOM = {"hidden_size": "hidden", "n_layer": "layers", "n_head": "heads", "vocab_size": "vocabulary"}


@dataclasses.dataclass(frozen=True)
class Family:
    """A model family. `names` matches the names of its models. `example` is a model of plans/models/ whose config
    supplies the keys that do not follow from sizes. `keys` maps keys of the config to sizes. `more` contains further
    keys."""

    names: str
    model_type: str
    example: str = ""
    keys: dict = dataclasses.field(default_factory=lambda: HF)
    more: dict = dataclasses.field(default_factory=dict)


FAMILIES = (
    Family(r"gpt-neo", "gpt_neo", keys=GPT_NEO,
           more={"attention_types": [[["global", "local"], 16]], "window_size": 256}),
    Family(r"gpt-bs-", "bloom", keys=BLOOM),
    Family(r"gpt-?oss", "gpt_oss", "gpt-oss-20b",
           {**HF, "num_local_experts": "experts", "num_experts_per_tok": "experts_per_token",
            "intermediate_size": "expert_width"}),
    # The MPT models of llm-foundry's benchmarks are GPT-2 models: learned positions, no ALiBi, biases, a tied head. The
    # parameter counts in their 153 published rows follow GPT-2's formula.
    Family(r"gpt|mtnlg|zb-|mpt", "gpt2", "gpt2", GPT2),
    Family(r"opt", "opt", keys=OPT,
           more={"do_layer_norm_before": False, "word_embed_proj_dim": 512, "activation_function": "relu"}),
    Family(r"grok", "grok-1",
           keys={**HF, "intermediate_size": "expert_width", "num_experts": "experts",
                 "num_experts_per_tok": "experts_per_token"}),
    Family(r"llama4", "llama4_text",
           keys={**HF, "intermediate_size": "expert_width", "intermediate_size_mlp": "mlp_width",
                 "num_local_experts": "experts", "num_experts_per_tok": "experts_per_token"},
           more={"interleave_moe_layer_step": 2}),
    Family(r"llama-?3", "llama", "llama-3.1-8b"),
    Family(r"internlm-", "llama", "llama-2-7b", more={"attention_bias": True}),
    Family(r"llama|nanotron|ziya|linly", "llama", "llama-2-7b"),
    Family(r"baichuan", "baichuan"),
    Family(r"deepseek-?v4", "deepseek_v4"),
    Family(r"deepseek", "deepseek_v3", "deepseek-v3", DEEPSEEK, {"num_nextn_predict_layers": 0}),
    Family(r"kimi", "deepseek_v3", "deepseek-v3", DEEPSEEK,
           {"num_nextn_predict_layers": 0, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 2.827}),
    Family(r"qwen3-next", "qwen3_next"),
    Family(r"qwen3", "qwen3_moe", "qwen3-30b-a3b", {**HF, **EXPERTS, "num_experts": "experts"}),
    Family(r"qwen-", "qwen"),
    Family(r"nemotron4", "nemotron", more={"hidden_act": "relu2", "partial_rotary_factor": 0.5}),
    Family(r"nemotron", "nemotron_h"),
)  # fmt: skip


def family_of(model):
    return next((family for family in FAMILIES if re.match(family.names, model, re.IGNORECASE)), None)


def stand_in(sizes):
    """Returns a family that am-plan knows, for a model of an unknown family with these sizes."""
    return family_of("qwen3" if sizes["experts"] > 0 else "llama" if sizes["gated"] > 0 else "gpt")


def derived(sizes, seq_len):
    """Returns the sizes of scripts/measurements/models.csv, and further sizes of configs that follow from them."""
    width = sizes["expert_width"]
    return {
        **sizes, "positions": seq_len, "dense_layers": sizes["layers"] - sizes["moe_layers"],
        "nope_head_dim": sizes["qk_head_dim"] - sizes["rope_head_dim"],
        "shared_experts": sizes["shared_width"] / width if width > 0 else 0.0}  # fmt: skip


def read_config(name):
    """Returns the config of a model of plans/models/, or None."""
    file = ROOT / "plans" / "models" / name / "config.json"
    return json.loads(file.read_text(encoding="utf-8")) if name and file.exists() else None


def config_by_name(model):
    """Returns the config in plans/models/ of a model's published name, or None. A name that is not in CONFIGS is looked up
    in lower case and with hyphens."""
    return read_config(CONFIGS.get(model) or re.sub(r"[ _]+", "-", model.lower()))


def config_of(model, family, sizes, seq_len):
    """Returns the config of a model: made from its sizes or, if the sizes are not known, found by its name."""
    if not sizes:
        return config_by_name(model) or {"model_type": family.model_type}
    config = read_config(family.example) or {}
    longest = max(seq_len, *(config.get(key, 0) for key, size in family.keys.items() if size == "positions"), 0)
    known = derived(sizes, longest)
    config |= {"model_type": family.model_type, **family.more}
    config |= {key: int(known[size]) for key, size in family.keys.items()}
    config["tie_word_embeddings"] = sizes["tied"] > 0
    return config


def zb_2p_schedule(pp, microbatches):
    """Returns ZB-2p, a zero-bubble schedule in which each rank holds the activations of at most 2 * pp micro-batches, as
    the CSV file of a plan (Qi et al., 2023). Each pass takes one slot. A rank runs the first of these passes that it can
    run: gradient of an input, forward, gradient of weights."""
    forward, inputs, weights = ([0] * pp for _ in range(3))  # number of passes that each rank has run
    ranks = [[] for _ in range(pp)]
    while min(weights) < microbatches:
        before = list(forward), list(inputs)
        for rank, order in enumerate(ranks):
            # Micro-batches whose input or output gradient has arrived.
            arrived = before[0][rank - 1] if rank > 0 else microbatches
            returned = before[1][rank + 1] if rank + 1 < pp else before[0][rank]
            if inputs[rank] < returned:
                order.append(f"{rank}I{inputs[rank]}")
                inputs[rank] += 1
            elif forward[rank] < arrived and forward[rank] - weights[rank] < 2 * pp:
                order.append(f"{rank}F{forward[rank]}")
                forward[rank] += 1
            elif weights[rank] < inputs[rank]:
                order.append(f"{rank}W{weights[rank]}")
                weights[rank] += 1
            else:
                order.append("")
    return "".join(",".join(order) + "\n" for order in ranks)


class Schema:
    """The sections, keys and legal values of plans, as `am-plan schema` lists them."""

    def __init__(self, binary):
        text = subprocess.run([binary, "schema"], check=True, capture_output=True, text=True).stdout
        self.sections = json.loads(text)["properties"]
        self.strategy = self.sections["strategy"]
        self.strategies = self.values("name")

    def values(self, key):
        field = self.strategy["properties"].get(key, {})
        choices = (field, field.get("items", {}), *field.get("anyOf", ()))
        return {value for choice in choices for value in choice.get("enum", ())}

    def has(self, strategy, key):
        """Returns whether the strategy exists and has the key."""
        for branch in self.strategy["allOf"]:
            if branch["if"]["properties"]["name"]["const"] == strategy:
                return key in branch["then"]["propertyNames"]["enum"]
        return False


class Translation:
    """The plan of one published row, and the reasons why the plan is not exactly what ran."""

    def __init__(self, row, known, schema):
        self.row, self.schema = row, schema
        self.reasons = {}  # reason: detail
        self.plan = collections.defaultdict(dict)
        self.rule, self.message = "", ""
        self.schedule = ""  # content of the schedule's CSV file, which stands beside the plan; empty: none
        self.sizes = known.get(row["model"])
        self.family = family_of(row["model"])
        self.is_moe = bool(self.sizes and self.sizes["experts"]) or row.number("ep", 1.0) > 1.0
        self.is_exact = False  # whether the plan expresses all that the row states; am-plan may still refuse the plan
        self.cleaner = Cleaner(self.with_batch(), {row["model"]: self.sizes or {"moe_layers": float(self.is_moe)}})
        try:
            self.cleaner.add_layout()
            self.cleaner.add_batch()
        except LeftOut as why:
            self.refuse(f"source: {why}")
            return
        self.out = self.cleaner.out
        for part in (self.add_model, self.add_mesh, self.add_strategy, self.add_precision, self.add_recomputation,
                     self.add_pipeline, self.add_train, self.add_cluster):  # fmt: skip
            part()
        self.is_exact = not self.reasons

    def refuse(self, reason, detail=""):
        self.reasons.setdefault(reason, detail)

    def with_batch(self):
        """Returns the row, with a batch of one micro-batch per stage if the source has none."""
        row = self.row
        if row["seq_len"] and (row["gbs"] or (row["mbs"] and row["grad_accum"])):
            return row
        self.refuse(NO_BATCH)
        batch = {"seq_len": row["seq_len"] or "2048", "mbs": "1", "grad_accum": row["pp"]}
        return Row({**row, **batch, "gbs": str(int(row.number("dp", 1.0) * row.number("pp", 1.0)))})

    def add_model(self):
        name, notes = self.row["model"], self.row["notes"]
        if self.family is None:
            self.refuse("model that is not known", name)
        elif not self.sizes and not config_by_name(name):
            self.refuse("sizes that are not in models.csv", name)
        if self.row["framework"] == "MegaScale" and "parallel block" in notes:
            self.refuse("family GPT with parallel blocks and windows")
        if "w/MTP" in name:
            self.refuse("MTP layers")
        if "tokendrop" in name:
            self.refuse("token dropping")
        self.plan["model"] = {"path": "", "weights": "none"}

    def replicas(self):
        """Returns the number of replicas, each sharded over the other data-parallel ranks."""
        row, dp = self.row, self.cleaner.dp
        if self.out["zero_stage"] == 0.0:
            return 1
        shard = row.number("dp_shard")
        if not row["dp_replicate"] and shard and shard < dp:
            return int(dp / shard)
        if "FSDP+DP" in row["strategy"] and shard is None:
            self.refuse("source: replicas")
        return int(self.out["dp_replicate"])

    def add_mesh(self):
        out, row = self.out, self.row
        if self.cleaner.world != row.number("num_gpus"):
            self.refuse("source: sizes do not multiply to the GPUs", f"{self.cleaner.world:g} of {row['num_gpus']}")
        mesh = {"world_size": int(self.cleaner.world), "dp_size": int(self.cleaner.dp)}
        for axis in ("tp", "pp", "cp", "ep"):
            mesh[f"{axis}_size"] = int(out[axis])
        mesh["dp_replicate_size"] = self.replicas()
        mesh["ranks_per_node"] = int(row.number("gpus_per_node", 8.0))
        self.plan["mesh"] = mesh

    def add_strategy(self):
        zero, text = self.out["zero_stage"], self.row["strategy"]
        if text == "Megatron-FSDP":
            self.use_megatron_fsdp(3)
        elif zero == 3.0 or text.startswith("FSDP"):
            self.use_fsdp2()
            if zero == 2.0:
                self.plan["strategy"]["reshard_after_forward"] = False
        elif not text and self.cleaner.dp > 1:
            self.refuse("source: data parallelism")
            self.use_fsdp2()
        elif "megatron" in self.schema.strategies:
            self.use_megatron(int(zero))
        else:
            self.use_megatron_fsdp(int(zero))
        if self.name in ("fsdp2", "megatron") and self.out["sequence_parallel"] and self.out["tp"] > 1:
            self.plan["strategy"]["sequence_parallel"] = True

    @property
    def name(self):
        return self.plan["strategy"]["name"]

    @property
    def expert_tp(self):
        """Tensor-parallel ranks of each expert; Megatron's default is tp."""
        return self.row.number("etp", self.out["tp"])

    def use_fsdp2(self):
        strategy = self.plan["strategy"] = {"name": "fsdp2"}
        if self.row["compile"]:
            strategy["enable_compile"] = self.row["compile"] == "1"
        if re.search("async ?tp", self.row["notes"], re.IGNORECASE):
            strategy["enable_async_tensor_parallel"] = True

    def use_megatron(self, zero):
        strategy = self.plan["strategy"] = {"name": "megatron", "zero": zero}
        if self.is_moe:
            strategy["etp_size"] = int(self.expert_tp)

    def use_megatron_fsdp(self, zero):
        """Sets megatron_fsdp, or fsdp2 if the row has axes that megatron_fsdp lacks. Levels 0 to 2 stand for Megatron's
        data parallelism."""
        out = self.out
        is_sequence_cut = out["sequence_parallel"] and out["tp"] > 1
        missing = [axis for axis, is_used in (
            ("pp", out["pp"] > 1),
            ("sp", is_sequence_cut and not self.schema.has("megatron_fsdp", "sequence_parallel")),
            ("etp", self.is_moe and self.expert_tp != (1 if out["ep"] > 1 else out["tp"])),
        ) if is_used]  # fmt: skip
        if missing:
            self.refuse("Megatron-FSDP with pp/sp/etp" if zero == 3 else MEGATRON, ", ".join(missing))
        if self.plan["mesh"]["dp_replicate_size"] > 1 and zero < 3:
            self.refuse(PARTIAL)
            self.plan["mesh"]["dp_replicate_size"] = 1
        if missing:
            self.use_fsdp2()
            return
        self.plan["strategy"] = {"name": "megatron_fsdp", "zero_dp_strategy": zero, "preserve_fp32_weights": True}

    def recipe_of(self, text):
        """Returns the dtype and the recipe of a precision as published, or None if they are not known."""
        if text == "fp8-mx/blockwise":  # blockwise FP8 on Hopper GPUs, otherwise MXFP8
            return "bfloat16", "block" if self.row["gpu"].startswith("H") else "mxfp8"
        return PRECISIONS.get(text)

    def add_precision(self):
        text = self.row["precision"].lower()
        found = self.recipe_of(text)
        if found is None:
            self.refuse("source: precision", text)
            found = ("bfloat16", "none")
        dtype, recipe = found
        if "allgather" in text:
            self.refuse("FP8 all-gather")
        strategy = self.plan["strategy"]
        if self.name == "fsdp2":
            strategy["mp_policy"] = {"param_dtype": dtype}
            if "pure" in text:
                strategy["mp_policy"]["reduce_dtype"] = dtype
        elif self.name == "megatron":
            strategy["params_dtype"] = dtype
        elif dtype == "float16":
            self.refuse(FLOAT16)
        else:
            self.plan["model"]["dtype"] = dtype
        if self.name != "fsdp2" and ("fp32 grad" in text or "fp32 grad" in self.row["notes"]):
            strategy["grad_reduce_in_fp32"] = True
        self.add_recipe(recipe)

    def add_recipe(self, recipe):
        if recipe == "none":
            return
        if recipe not in self.schema.values("fp8") or not self.schema.has(self.name, "fp8"):
            self.refuse(RECIPES.get(recipe, f"FP8 {recipe}"))
            return
        # torchao's recipes do not apply to experts.
        if self.is_moe and recipe in ("tensorwise", "rowwise") and self.name != "megatron":
            self.refuse("FP8 of experts")
        self.plan["strategy"]["fp8"] = recipe

    def add_recomputation(self):
        text, notes = self.row["ac"], self.row["notes"]
        ratio = re.search(r"alpha=([\d.]+)", notes)
        is_offloaded = "offload" in text or text == "ours" or "offloading required" in notes
        if ratio:
            self.offload(float(ratio[1]))
        elif is_offloaded:
            self.refuse("source: fraction of offloaded activations")
        if text.startswith("balanced") or text == "ours":  # Megatron-Kwai recomputes norms and SwiGLU
            self.recompute_modules(["norm", "mlp_act"])
        elif text == "selective(every 2nd layer)":
            self.checkpoint(True, activation_checkpointing_every=2)
        elif text == "selective(op)":
            self.checkpoint("selective")
        elif text.startswith("selective") or "recompute core_attn" in notes:
            self.recompute_modules(re.findall(r"[^(,)]+", text)[1:] if "(" in text else ["attn core"])
        elif text == "full":
            self.checkpoint(True)
        elif text not in ("", "none"):
            self.refuse("recompute that is not known", text)

    def offload(self, fraction):
        if fraction == 0.0:
            return
        key = "activation_offload_fraction"
        if self.schema.has(self.name, key):
            self.plan["strategy"][key] = fraction
        else:
            self.refuse("activation offload")

    def checkpoint(self, mode, **more):
        for key, value in {"activation_checkpointing": mode, **more}.items():
            if self.schema.has(self.name, key):
                self.plan["strategy"][key] = value
            else:
                self.refuse("recompute of every n-th layer")
        if mode == "selective" and self.name != "fsdp2":
            self.refuse(BY_MODULE)

    def recompute_modules(self, modules):
        """Sets the recomputation of these modules, which Megatron selects by name."""
        if self.row["framework"].startswith("fms-fsdp"):
            self.refuse("source: share of recomputed layers")
        elif not self.schema.has(self.name, "recompute_modules"):
            self.refuse(BY_MODULE, ", ".join(modules))
        elif "selective+offload" in self.row["ac"]:
            self.refuse("source: recomputed modules")
        elif not MODULES.keys() >= set(modules):
            self.refuse("recompute that is not known", ", ".join(modules))
        elif not self.schema.values("recompute_modules") >= {MODULES[module] for module in modules}:
            self.refuse(BY_MODULE, ", ".join(modules))
        else:
            strategy = self.plan["strategy"]
            strategy["activation_checkpointing"] = "selective"
            strategy["recompute_modules"] = [MODULES[module] for module in modules]

    def add_pipeline(self):
        out, text = self.out, self.row["pp_schedule"]
        if out["pp"] <= 1:
            return
        virtual = int(out["virtual_stages"])
        if text in SCHEDULES:
            schedule, virtual = SCHEDULES[text]
        elif text == "ZB-2p":
            self.schedule = zb_2p_schedule(int(out["pp"]), self.microbatches())
            schedule = f"zb-2p-{out['pp']:g}x{self.microbatches()}.csv"
        elif text in ("", "1F1B", "interleaved 1F1B"):
            schedule = "interleaved_1f1b" if virtual > 1 else "1f1b"
            if text.startswith("interleaved") and not self.row["vpp"]:
                self.refuse("source: virtual stages")
        else:
            self.refuse(f"schedule {text}")
            schedule = "interleaved_1f1b" if virtual > 1 else "1f1b"
        self.plan["pipeline"] = {"schedule": schedule, "microbatches": self.microbatches(), "virtual_stages": virtual}
        splits = self.split_points(int(out["pp"]) * virtual)
        if splits:
            self.plan["pipeline"]["split_points"] = splits

    def microbatches(self):
        """Returns the number of micro-batches of one run of the schedule. AutoModel and torchtitan run the schedule once
        for each local batch (LBS) of a step."""
        local = re.search(r"LBS=(\d+)", self.row["notes"])
        return int(int(local[1]) / self.out["micro_batch"] if local else self.out["micro_batches"])

    @property
    def counts_embedding(self):
        """Returns whether the framework or the row balances stages with the embedding and the head as layers."""
        if "DeepSpeed" in self.row["framework"]:
            return "transformer|embedding" in self.row["notes"]
        return self.out["zero_stage"] < 3

    def split_points(self, stages):
        """Returns the first layer of each stage except stage 0 if the embedding and the head count as layers, else [].

        Rows of Sailor list such stages. BigScience's partition "transformer|embedding" and Megatron's even split imply
        such stages.
        """
        if not self.sizes:
            return []
        layers = int(self.sizes["layers"])
        listed = re.search(r"layers/stage \[([\d, ]+)\]", self.row["notes"])
        if listed:
            counts = [int(count) for count in listed[1].split(",")]
        elif self.counts_embedding and layers % stages and (layers + 2) % stages == 0:
            counts = [(layers + 2) // stages] * stages
        else:
            return []
        if len(counts) != stages or sum(counts) != layers + 2:
            self.refuse("source: layers of stages", f"{counts} of {layers} layers")
            return []
        return [sum(counts[:i]) - 1 for i in range(1, stages)]

    def add_train(self):
        out, row = self.out, self.row
        if not row.number("mbs") and NO_BATCH not in self.reasons:
            self.refuse(NO_MICRO_BATCH)
        self.plan["train"] = {
            "seq_len": int(out["seq_len"]), "micro_batch_size": int(out["micro_batch"]),
            "global_batch_size": int(self.cleaner.sequences)}  # fmt: skip

    def add_cluster(self):
        row = self.row
        is_eager = row["framework"] == "torchtitan" and row["compile"] == "0"
        implementation = {**IMPLEMENTATIONS, **MORE_IMPLEMENTATIONS}.get(row["framework"])
        self.plan["cluster"] = {"gpu": row["gpu"]}
        if implementation:
            self.plan["cluster"]["implementation"] = "pytorch" if is_eager else implementation


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value)


def text_of(plan):
    sections = []
    for name, keys in plan.items():
        sections.append("\n".join([f"[{name}]", *(f"{key} = {toml(value)}" for key, value in keys.items())]))
    return "\n\n".join(sections) + "\n"


class Folder:
    """A folder of plans, with the configs of their models."""

    def __init__(self, path):
        self.path = path
        self.configs = {}  # text of a config: its folder

    def model(self, translation, family):
        seq_len = int(translation.out["seq_len"])
        model = translation.row["model"]
        text = json.dumps(config_of(model, family, translation.sizes, seq_len), indent=1)
        if text not in self.configs:
            name = re.sub(r"[^A-Za-z0-9.]+", "-", model).strip("-")
            self.configs[text] = f"models/{name}-{len(self.configs)}"
            folder = self.path / self.configs[text]
            folder.mkdir(parents=True)
            (folder / "config.json").write_text(text, encoding="utf-8")
        return self.configs[text]

    def add(self, translation, family, suffix=""):
        translation.plan["model"]["path"] = self.model(translation, family)
        file = self.path / f"{translation.row['id']}{suffix}.toml"
        file.write_text(text_of(translation.plan), encoding="utf-8")
        if translation.schedule:
            name = translation.plan["pipeline"]["schedule"]
            (self.path / name).write_text(translation.schedule, encoding="utf-8")
        return file


def check(binary, files):
    """Returns {plan file: errors} of `am-plan check`, whose processes check BATCH plans each."""
    errors = {}
    for first in range(0, len(files), BATCH):
        command = [binary, "check", "--plan-only", "--json", *files[first : first + BATCH]]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(f"writable_runs: {binary} check: {done.stderr.strip()}")
        for plan in json.loads(done.stdout)["plans"]:
            errors[pathlib.Path(plan["file"])] = [d for d in plan["diagnostics"] if d["severity"] == "error"]
    return errors


def reason_of(translation, error):
    rule = error["rule"]
    if rule in RULES:
        return RULES[rule]
    return f"family {translation.family.model_type}" if rule.startswith("model.") else f"rule {rule}"


def judge(translations, binary, path):
    """Adds am-plan's refusals to the reasons of all translations. Returns {id: file} of all plans."""
    folder = Folder(path)
    files = {t.row["id"]: folder.add(t, t.family) for t in translations if t.family and "train" in t.plan}
    errors = check(binary, list(files.values()))
    unknown = []
    for translation in translations:
        for error in errors.get(files.get(translation.row["id"]), ()):
            if not translation.rule:
                translation.rule, translation.message = error["rule"], error["message"]
            translation.refuse(reason_of(translation, error), error["message"])
        if translation.rule.startswith("model.") and translation.rule != "model.heads" and translation.sizes:
            unknown.append(translation)
    judge_stand_ins(unknown, binary, folder)
    return files


def judge_stand_ins(translations, binary, folder):
    """Adds the reasons that am-plan finds if a known family with the model's sizes replaces the unknown family."""
    files = [(t, folder.add(t, stand_in(t.sizes), ".stand-in")) for t in translations]
    errors = check(binary, [file for _, file in files])
    for translation, file in files:
        for error in errors[file]:
            translation.refuse(reason_of(translation, error), error["message"])


def greedy(translations):
    """Returns (reason, number of rows that can be written once this and all earlier reasons are removed) for each reason.
    The next reason is always the one whose removal frees the most rows."""
    left = [set(t.reasons) for t in translations if t.reasons]
    done = len(translations) - len(left)
    order = []
    while left:
        alone = collections.Counter(next(iter(reasons)) for reasons in left if len(reasons) == 1)
        count = collections.Counter(reason for reasons in left for reason in reasons)
        best = max(sorted(count), key=lambda reason: (alone[reason], count[reason]))
        left = [reasons - {best} for reasons in left]
        done += sum(not reasons for reasons in left)
        left = [reasons for reasons in left if reasons]
        order.append((best, done))
    return order


def summary(translations):
    written = sum(not t.reasons for t in translations)
    count = collections.Counter(reason for t in translations for reason in t.reasons)
    alone = collections.Counter(reason for t in translations for reason in t.reasons if len(t.reasons) == 1)
    return {
        "rows": len(translations),
        "written": written,
        "incomplete": sum(any(r.startswith("source:") for r in t.reasons) for t in translations),
        "reasons": [
            {"reason": reason, "rows": count[reason], "alone": alone[reason]}
            for reason in sorted(count, key=lambda reason: (-count[reason], reason))
        ],
        "greedy": [{"reason": reason, "written": done} for reason, done in greedy(translations)],
    }


def run_of(translation):
    row = translation.row
    return {
        "id": row["id"], "framework": row["framework"], "model": row["model"], "reasons": translation.reasons,
        "rule": translation.rule, "message": translation.message}  # fmt: skip


def show(result):
    total = max(1, result["rows"])
    print(f"{result['written']} of {result['rows']} runs are plans ({100 * result['written'] / total:.1f} %)")
    print(f"{result['incomplete']} runs are published without a setting that a plan needs (source: ...)\n")
    width = max([len(entry["reason"]) for entry in result["reasons"]], default=0)
    if not width:
        return
    print(f"{'reason':{width}}  rows  alone")
    for entry in result["reasons"]:
        print(f"{entry['reason']:{width}}  {entry['rows']:4}  {entry['alone']:5}")
    print(f"\n{'without, in this order':{width}}  runs  share")
    for entry in result["greedy"]:
        print(f"{entry['reason']:{width}}  {entry['written']:4}  {100 * entry['written'] / total:4.1f} %")


def show_listed(translations, reason):
    listed = [t for t in translations if reason in t.reasons]
    if not listed:
        known = sorted({r for t in translations for r in t.reasons})
        raise SystemExit(f"writable_runs: no run has the reason '{reason}' (reasons: {'; '.join(known)})")
    for translation in listed:
        row, others = translation.row, [r for r in translation.reasons if r != reason]
        print("  ".join(filter(None, (row["id"], row["framework"], row["model"], translation.reasons[reason]))))
        if others:
            print(f"    also: {'; '.join(others)}")


def keep(translations, files, target):
    """Copies the plans that express all that their rows state, and the configs of their models."""
    target.mkdir(parents=True, exist_ok=True)
    for translation in translations:
        file = files.get(translation.row["id"])
        if file is None or not translation.is_exact:
            continue
        shutil.copy(file, target)
        if translation.schedule:
            shutil.copy(file.parent / translation.plan["pipeline"]["schedule"], target)
        path = re.search(r'^path = "(.*)"$', file.read_text(encoding="utf-8"), re.MULTILINE)[1]
        shutil.copytree(file.parent / path, target / path, dirs_exist_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=pathlib.Path, help="runs as published")
    built = ROOT / "build" / "bin" / "am-plan"
    parser.add_argument("--am-plan", type=pathlib.Path, default=built, help="default: build/bin/am-plan")
    parser.add_argument("--list", metavar="REASON", help="list the runs with this reason")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--write", metavar="FOLDER", type=pathlib.Path, help="keep the plans")
    arguments = parser.parse_args()
    for file in (arguments.rows, arguments.am_plan):
        if not file.is_file():
            parser.error(f"{file}: no such file")
    schema, known = Schema(arguments.am_plan), models()
    translations = [Translation(row, known, schema) for row in read(arguments.rows) if row["task"] == "pretrain"]
    with tempfile.TemporaryDirectory() as folder:
        files = judge(translations, arguments.am_plan, pathlib.Path(folder))
        if arguments.write:
            keep(translations, files, arguments.write)
    result = summary(translations)
    if arguments.json:
        print(json.dumps({**result, "runs": [run_of(t) for t in translations]}, indent=1))
    elif arguments.list:
        show_listed(translations, arguments.list)
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
