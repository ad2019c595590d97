"""A divergence is followed to its cause: the starved experts of a Mixtral that is trained with a rate of 0.05, and the
module in which a NaN begins."""
# ctest: waits

import json
import math
import re
import struct
import unittest

from attach_support import LONG, AttachCase
from cli_support import run_tool
from run_support import DATA, FULL_PRECISION, read_safetensors, write_safetensors

MODEL = DATA / "hf" / "mixtral"
PLANTED = "model.layers.1.post_attention_layernorm.weight"


class DivergenceTest(AttachCase):
    def plan(self, experts=8, weights=None, steps=LONG, more=""):
        """Writes a plan that trains a Mixtral without balancing the loads of its experts; returns the plan's path."""
        folder = self.path / "model"
        folder.mkdir(exist_ok=True)
        config = json.loads((MODEL / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "num_local_experts": experts}))
        tokens = self.path / "tokens.bin"
        tokens.write_bytes(b"".join((17 * i * i % 97).to_bytes(2, "little") for i in range(20000)))
        start = f'weights = "{weights}"\n' if weights else ""
        return self.write_plan(f"""
[model]
path = "{folder}"
{start}
[mesh]
world_size = 2
[strategy]
name = "fsdp2"
{FULL_PRECISION}
[train]
seq_len = 16
micro_batch_size = 2
global_batch_size = 8
max_steps = {steps}
[optimizer]
lr = 0.05
[experts]
balancing = "none"
[data]
kind = "tokens"
path = "{tokens}"
{more}
""")

    def check_experts(self, answer, load):
        """Checks that the largest and smallest loads of experts in `answer` are those in `load`, and that exactly the
        experts without tokens are listed as dead."""
        loads = []
        for layer in answer["layers"]:
            tokens = layer["tokens_per_expert"]
            mean = sum(tokens) / len(tokens)
            loads += [max(tokens) / mean, min(tokens) / mean]
            self.assertEqual(layer["dead"], [i for i, number in enumerate(tokens) if number == 0])
        self.assertAlmostEqual(max(loads), load["max_over_mean"])
        self.assertAlmostEqual(min(loads), load["min_over_mean"])

    def test_a_break_pauses_where_experts_starve(self):
        job = self.start_job_of(self.plan(), "run")
        watched, paused, _, stepped, experts, status, _, next_step = self.repl(
            "run", "watch expert_load every 1 --times 3", "pause", "break when expert_load > 2", "step 100000", "experts",
            "status", "break when expert_load > 1", "step 100000")
        self.assertTrue(stepped["paused"])
        self.assertEqual(status["step"], stepped["step"])
        self.stop(job)
        loads = {line["step"]: line["expert_load"] for line in self.metrics("run")}
        over = [step for step in range(paused["step"] + 1, stepped["step"] + 1) if loads[step]["max_over_mean"] > 2]
        self.assertEqual(over, [stepped["step"]])
        self.check_experts(experts, loads[stepped["step"]])
        self.assertEqual(next_step["step"], stepped["step"] + 1)  # unequal loads are always above 1
        for sample in watched["samples"]:
            self.assertAlmostEqual(sample["value"], loads[sample["step"]]["max_over_mean"])

    def test_starved_experts_are_named(self):
        plan = self.plan(experts=16, steps=5)
        self.train(plan, "run")
        experts = self.repl(plan, "step 5", "experts")[1]
        self.check_experts(experts, self.metrics("run")[-1]["expert_load"])
        table = run_tool("am-repl", plan, "-c", "step 5; experts").out
        for layer in experts["layers"]:
            tokens = layer["tokens_per_expert"]
            dead = re.escape(json.dumps(layer["dead"]))
            self.assertGreater(len(layer["dead"]), 0)
            self.assertRegex(table, rf"(?m)^ +{layer['layer']} +{tokens.index(max(tokens))} \(.*x\) +"
                                    rf"{tokens.index(min(tokens))} \(0.00x\) .* {dead}")

    def test_a_held_step_names_the_module_of_the_failure(self):
        self.train(self.plan(steps=3, more='[checkpoint]\nexport = "hf"\n'), "before")
        (weights,) = (self.path / "before" / "export").glob("*/model.safetensors")
        tensors = read_safetensors(weights)
        kind, shape, values = tensors[PLANTED]
        tensors[PLANTED] = kind, shape, struct.pack("<f", math.nan) + values[4:]
        write_safetensors(weights, tensors)
        job = self.start(self.plan(weights=weights), "--run-dir", "run", "--on-failure", "hold")
        control = self.path / "run" / "control" / "control.json"
        self.wait_for(lambda: control.exists() and self.status()["paused"] == "a failure")
        acts, nan = self.repl("run", "acts", f"nan {PLANTED}")
        self.assertEqual(nan["parameters"][0]["nan"], 1)
        self.repl("run", "continue")
        self.assertEqual(job.wait(timeout=60), 1)
        (named,) = set(re.findall("the output of ([a-z0-9_.]+) in micro-batch 0", job.stderr.read()))
        self.assertEqual(named, "model.layers.1")
        self.assertEqual(acts["first_nonfinite"], named)


if __name__ == "__main__":
    unittest.main()
