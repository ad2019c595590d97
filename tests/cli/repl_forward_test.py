"""am-repl's commands acts, experts and attention return the values that PyTorch's hooks recorded:
on a checkpoint, and on ranks under several layouts. The commands also run in a job."""
# ctest: waits

import json
import math
import re
import shutil
import unittest

from attach_support import AttachCase
from run_support import DATA, FULL_PRECISION, read_safetensors, write_safetensors

MODEL = DATA / "hf" / "mixtral"
PLAN = f"""
[model]
path = "{MODEL}"
weights = "{MODEL}/model.safetensors"
dtype = "float32"
[mesh]
world_size = 2
MESH
[strategy]
name = "fsdp2"
{FULL_PRECISION}
[train]
seq_len = 16
"""
# Values from PyTorch's hooks, made by scripts/fixtures/make_activations.py.
HOOKS = json.loads((DATA / "activations.json").read_text())
TEXT = HOOKS["text"]


class ForwardTest(AttachCase):
    def answers(self, target, commands, *options):
        return self.repl(target, *commands, options=["--tokenizer", "bytes", *options])

    def tokens(self):
        """Writes a token file with ids of the model's vocabulary, and returns its path."""
        file = self.path / "tokens.bin"
        file.write_bytes(b"".join((17 * i * i % 97).to_bytes(2, "little") for i in range(20000)))
        return file

    def check(self, answers, oracle):
        acts, experts, *attention = answers
        self.assertEqual(len(acts["units"]), len(oracle["units"]))
        for mine, (name, rms, max_abs, zeros) in zip(acts["units"], oracle["units"], strict=True):
            self.assertTrue(math.isclose(mine["rms"], rms, rel_tol=1e-5), (name, mine, rms))
            self.assertTrue(math.isclose(mine["max_abs"], max_abs, rel_tol=1e-5), (name, mine, max_abs))
            self.assertTrue(math.isclose(mine["zeros"], zeros, abs_tol=1e-6), (name, mine, zeros))
            self.assertEqual((mine["nan"], mine["inf"]), (0, 0))
        self.assertEqual([layer["tokens_per_expert"] for layer in experts["layers"]], oracle["experts"])
        for answer in attention:
            for mine, heads in zip(answer["layers"], oracle["attention"], strict=True):
                self.assertAlmostEqual(mine["entropy"], sum(heads) / len(heads), places=5)
                for entropy, wanted in zip(mine["heads"], heads, strict=True):
                    self.assertAlmostEqual(entropy, wanted, places=5)

    def test_outputs_and_experts_are_those_of_transformers(self):
        oracle = HOOKS
        commands = (f"acts --of '{TEXT}'", f"experts --of '{TEXT}'", f"attention --of '{TEXT}'")
        self.check(self.answers(MODEL, commands), oracle)
        for mesh in ("", "tp_size = 2", "pp_size = 2", "cp_size = 2", "ep_size = 2"):
            with self.subTest(mesh=mesh):
                plan = self.write_plan(PLAN.replace("MESH", mesh))
                of_layout = commands[:2] if mesh == "cp_size = 2" else commands
                self.check(self.answers(plan, of_layout), oracle)

    def test_attention_needs_whole_sequences(self):
        plan = self.write_plan(PLAN.replace("MESH", "cp_size = 2"))
        refused = self.repl(plan, f"attention --of '{TEXT}'", options=["--tokenizer", "bytes"], status=1)
        self.assertIn("cp_size", refused[0]["error"]["message"])

    def test_a_unit_with_nan_is_named_and_units_are_selected(self):
        weights = self.path / "mixtral"
        shutil.copytree(MODEL, weights)
        tensors = read_safetensors(MODEL / "model.safetensors")
        dtype, shape, values = tensors["model.layers.1.post_attention_layernorm.weight"]
        tensors["model.layers.1.post_attention_layernorm.weight"] = dtype, shape, b"\xff\xff\xff\xff" + values[4:]  # NaN
        write_safetensors(weights / "model.safetensors", tensors)
        (acts,) = self.answers(weights, [f"acts --of '{TEXT}'"])
        self.assertEqual(acts["first_nonfinite"], "model.layers.1")
        self.assertEqual([row["nan"] > 0 for row in acts["units"]][:2], [False, False])
        (one,) = self.answers(weights, [f"acts model.layers.0 --of '{TEXT}'"])
        self.assertEqual([row["name"] for row in one["units"]], ["model.layers.0"])
        refused = self.repl(weights, f"acts nothing --of '{TEXT}'", options=["--tokenizer", "bytes"], status=1)
        self.assertIn("no unit is named nothing", refused[0]["error"]["message"])
        refused = self.repl(weights, "acts", status=1)
        self.assertIn("no data", refused[0]["error"]["message"])

    def test_a_job_is_undisturbed_and_its_experts_are_those_of_the_step(self):
        job = self.start_job(arguments=["--set", f"model.path='{MODEL}'", "--set", "data.path=" + repr(str(self.tokens()))])
        experts, acts, attention, again, load = self.repl(
            "run", "pause", "experts", "acts", "attention", "experts", "break when expert_load > 1", "continue")[1:6]
        self.assertRegex(experts["of"], "of step [0-9]+")
        self.assertEqual(again["layers"], experts["layers"])  # acts ran a forward pass, but did not change these counts
        self.assertEqual(load["when"], "expert_load > 1")
        step = int(re.findall("[0-9]+", experts["of"])[0])
        line = self.metrics("run")[step - 1]
        largest = max(layer["max_over_mean"] for layer in experts["layers"])
        self.assertAlmostEqual(largest, line["expert_load"]["max_over_mean"], places=9)
        self.assertEqual(len(acts["units"]), 5)
        self.assertTrue(all(layer["entropy"] > 0 for layer in attention["layers"]))
        self.stop(job)
        self.assertEqual(self.metrics("run")[step - 1]["loss"], line["loss"])


if __name__ == "__main__":
    unittest.main()
