"""scripts/writable_runs.py: translations of rows of each kind, and the order of reasons."""

import pathlib
import sys
import tempfile
import types
import unittest

from cli_support import SOURCE

sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "scripts"))
import writable_runs as runs  # noqa: E402

FSDP2 = {
    "id": "fsdp2", "model": "llama3.1-8b", "framework": "torchtitan", "gpu": "H100-80G", "precision": "bf16",
    "strategy": "FSDP2", "zero_stage": "3", "num_gpus": "8", "gpus_per_node": "8", "dp": "8", "tp": "1", "pp": "1",
    "cp": "1", "ep": "1", "seq_len": "8192", "mbs": "2", "gbs": "16", "ac": "selective(op)"}  # fmt: skip
MEGATRON = {
    **FSDP2, "id": "megatron", "model": "llama3.1-405b", "framework": "Megatron-Bridge", "precision": "MXFP8",
    "strategy": "DDP+dist-opt", "zero_stage": "1", "num_gpus": "1024", "dp": "8", "tp": "8", "sp": "1", "pp": "16",
    "vpp": "4", "mbs": "1", "gbs": "256", "ac": ""}  # fmt: skip
KEYS = {
    "fsdp2": {"fp8", "activation_checkpointing", "activation_checkpointing_every"},
    "megatron_fsdp": {"fp8", "activation_checkpointing"},
}
LATER = {**KEYS, "megatron": KEYS["megatron_fsdp"] | {"recompute_modules", "activation_offload_fraction"}}
MODULES = {"core_attn", "layernorm", "mlp_act", "moe_act"}


class Schema:
    """A schema with these strategies and recipes."""

    def __init__(self, keys, *recipes):
        self.keys, self.recipes, self.strategies = keys, {"tensorwise", *recipes}, set(keys)

    def values(self, key):
        return {"fp8": self.recipes, "recompute_modules": MODULES}.get(key, set())

    def has(self, strategy, key):
        return key in self.keys.get(strategy, ())


TODAY = Schema(KEYS)
ALL = Schema(LATER, "delayed", "mxfp8")


def translate(cells, schema=TODAY, **changes):
    row = runs.Row({**dict.fromkeys(runs.read(runs.ROOT / "scripts/measurements/runs.csv")[0], ""), **cells, **changes})
    return runs.Translation(row, runs.models(), schema)


class Rows(unittest.TestCase):
    def test_fsdp2(self):
        run = translate(FSDP2, notes="async TP")
        self.assertEqual((run.reasons, run.is_exact), ({}, True))
        self.assertEqual(run.plan["strategy"], {
            "name": "fsdp2", "enable_async_tensor_parallel": True, "mp_policy": {"param_dtype": "bfloat16"},
            "activation_checkpointing": "selective"})  # fmt: skip
        self.assertEqual(run.plan["mesh"]["dp_size"], 8)

    def test_replicas_follow_from_the_shards(self):
        run = translate(FSDP2, framework="MaxText (JAX)", ac="", num_gpus="512", dp="512", dp_shard="128", gbs="1024")
        self.assertEqual((run.reasons, run.plan["mesh"]["dp_replicate_size"]), ({}, 4))

    def test_megatron_becomes_writable_with_the_schema(self):
        self.assertEqual(set(translate(MEGATRON).reasons), {runs.MEGATRON, "MXFP8"})
        run = translate(MEGATRON, ALL)
        self.assertEqual(run.reasons, {})
        self.assertEqual(run.plan["strategy"], {
            "name": "megatron", "zero": 1, "sequence_parallel": True, "params_dtype": "bfloat16",
            "fp8": "mxfp8"})  # fmt: skip
        splits = run.plan["pipeline"]["split_points"]
        self.assertEqual((len(splits), splits[0], splits[-1]), (63, 1, 125))

    def test_megatron_fsdp_has_dense_zero_1(self):
        run = translate(MEGATRON, precision="BF16", tp="1", sp="0", pp="1", vpp="", dp="1024", gbs="1024")
        self.assertEqual(run.reasons, {})
        self.assertEqual(run.plan["strategy"]["zero_dp_strategy"], 1)
        self.assertEqual(run.plan["model"]["dtype"], "bfloat16")

    def test_partial_group(self):
        changes = {
            "framework": "InternEvo", "strategy": "ZeRO-1 group 8", "zero_stage": "1", "dp": "16", "num_gpus": "16",
            "gbs": "32", "ac": "none"}  # fmt: skip
        self.assertEqual(set(translate(FSDP2, **changes).reasons), {runs.PARTIAL})
        run = translate(FSDP2, ALL, **changes)
        self.assertEqual((run.reasons, run.plan["mesh"]["dp_replicate_size"]), ({}, 2))

    def test_experts(self):
        moe = {
            "model": "Qwen3_30B_a3B", "num_gpus": "16", "dp": "8", "tp": "2", "pp": "1", "vpp": "", "ep": "8",
            "gbs": "16"}  # fmt: skip
        self.assertEqual(translate(MEGATRON, ALL, **moe, etp="1").plan["strategy"]["etp_size"], 1)
        self.assertEqual(translate(MEGATRON, ALL, **moe).plan["strategy"]["etp_size"], 2)
        self.assertEqual(translate(MEGATRON, ALL, **moe, precision="FP8-CS").reasons, {})
        self.assertIn("FP8 of experts", translate(FSDP2, ALL, **moe, precision="float8 tensorwise").reasons)

    def test_recomputed_modules(self):
        run = translate(MEGATRON, ALL, ac="selective(norm,act)")
        self.assertEqual(run.plan["strategy"]["recompute_modules"], ["layernorm", "moe_act"])
        self.assertEqual(translate(MEGATRON, ALL, ac="selective").plan["strategy"]["recompute_modules"], ["core_attn"])
        self.assertIn(runs.BY_MODULE, translate(MEGATRON, ac="selective(norm,act)").reasons)

    def test_what_no_key_says_is_a_reason(self):
        for changes, reason in (
            ({"ac": "unheard of"}, "recompute that is not known"),
            ({"ac": "selective+offload"}, "source: fraction of offloaded activations"),
            ({"pp_schedule": "V-Half"}, "schedule V-Half"),
            ({"precision": "fp16/bf16"}, "source: precision"),
            ({"mbs": ""}, runs.NO_MICRO_BATCH),
            ({"gbs": ""}, runs.NO_BATCH),
            ({"num_gpus": "2048"}, "source: sizes do not multiply to the GPUs"),
            ({"model": "DeepSeekV3(w/MTP)"}, "MTP layers"),
            ({"model": "unheard-of-7b"}, "model that is not known"),
        ):
            run = translate(MEGATRON, ALL, **changes)
            self.assertIn(reason, run.reasons)
            self.assertFalse(run.is_exact)

    def test_offloaded_activations(self):
        for cells, fraction in (("alpha=0.10", 0.1), ("activation offload ratio alpha=1.000 (PCIe)", 1.0)):
            run = translate(MEGATRON, ALL, ac="balanced ckpt", notes=cells)
            self.assertEqual(run.reasons, {})
            self.assertEqual(run.plan["strategy"]["activation_offload_fraction"], fraction)
            self.assertEqual(run.plan["strategy"]["recompute_modules"], ["layernorm", "mlp_act"])
        run = translate(MEGATRON, ALL, notes="activation offload alpha=0.00")
        self.assertEqual((run.reasons, "activation_offload_fraction" in run.plan["strategy"]), ({}, False))
        self.assertIn("activation offload", translate(MEGATRON, notes="alpha=0.10").reasons)

    def test_zb_2p(self):
        run = translate(MEGATRON, ALL, pp="4", vpp="", dp="32", gbs="1024", pp_schedule="ZB-2p")
        self.assertEqual((run.reasons, run.plan["pipeline"]["schedule"]), ({}, "zb-2p-4x32.csv"))
        orders = [line.split(",") for line in run.schedule.splitlines()]
        for rank, order in enumerate(orders):
            passes = [action for action in order if action]
            self.assertEqual(set(passes), {f"{rank}{kind}{m}" for kind in "FIW" for m in range(32)})
            self.assertEqual(len(passes), 3 * 32)
            kinds = [action[1] for action in passes]
            held = [kinds[: i + 1].count("F") - kinds[:i].count("W") for i in range(len(kinds))]
            self.assertLessEqual(max(held), 2 * 4)
            inside = order[order.index(f"{rank}I0") : order.index(f"{rank}F31")]
            self.assertNotIn("", inside)  # a full pipeline has no bubble


class Models(unittest.TestCase):
    def test_sizes_are_those_of_the_config(self):
        known = runs.models()
        names = {"llama3.1-8b": "llama-3.1-8b", "Qwen3_30B_a3B": "qwen3-30b-a3b", "llama2-7b": "llama-2-7b"}
        for name, folder in names.items():
            made = runs.config_of(name, runs.family_of(name), known[name], 2048)
            self.assertLessEqual(runs.read_config(folder).items(), made.items())

    def test_text_of_a_plan(self):
        policy = {"param_dtype": "none"}
        plan = {"mesh": {"tp_size": 2}, "strategy": {"name": "fsdp2", "mp_policy": policy, "x": [True]}}
        text = '[mesh]\ntp_size = 2\n\n[strategy]\nname = "fsdp2"\nmp_policy = { param_dtype = "none" }\nx = [true]\n'
        self.assertEqual(runs.text_of(plan), text)

    def test_kept_plans_are_exact(self):
        with tempfile.TemporaryDirectory() as scratch:
            source, target = pathlib.Path(scratch, "source"), pathlib.Path(scratch, "target")
            source.mkdir()
            folder, both = runs.Folder(source), [translate(FSDP2), translate(MEGATRON)]
            runs.keep(both, {run.row["id"]: folder.add(run, run.family) for run in both}, target)
            kept = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
            self.assertEqual(kept, ["fsdp2.toml", "models/llama3.1-8b-0/config.json"])


class Order(unittest.TestCase):
    def test_greedy(self):
        reasons = [{}, {"a": ""}, {"b": ""}, {"b": ""}, {"a": "", "b": ""}, {"c": "", "d": ""}, {"d": "", "e": ""}]
        rows = [types.SimpleNamespace(reasons=each) for each in reasons]
        self.assertEqual(runs.greedy(rows), [("b", 3), ("a", 5), ("d", 5), ("c", 6), ("e", 7)])
        summary = runs.summary(rows)
        self.assertEqual((summary["rows"], summary["written"]), (7, 1))
        self.assertIn({"reason": "b", "rows": 3, "alone": 2}, summary["reasons"])


if __name__ == "__main__":
    unittest.main()
