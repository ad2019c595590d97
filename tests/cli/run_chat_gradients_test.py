"""Gradients of training on conversations equal those of transformers (which ignores labels of
-100), packed and padded, under every layout."""

import json
import unittest
from array import array

from run_support import DATA, RunTest, read_safetensors

EXPECTED = json.loads((DATA / "chat" / "gradients.json").read_text())

PLAN = """
[model]
path = "{family}"
dtype = "float32"
[mesh]
{mesh}
[strategy]
name = "fsdp2"
mp_policy = {{ param_dtype = "none", reduce_dtype = "none", output_dtype = "none" }}
{strategy}
{pipeline}
[train]
seq_len = 16
micro_batch_size = {micro}
global_batch_size = 12
epochs = 1
max_grad_norm = 0
[optimizer]
name = "sgd"
lr = 1.0
weight_decay = 0.0
[data]
kind = "chat"
tokenizer = "bytes"
path = "chat.jsonl"
packing = {packing}
[checkpoint]
export = "hf"
"""

LAYOUTS = {
    "one rank": {"mesh": "world_size = 1", "micro": 3},
    "fsdp2 3": {"mesh": "world_size = 3"},
    "tp 2, sequence parallel": {"mesh": "world_size = 2\ntp_size = 2", "strategy": "sequence_parallel = true", "micro": 4},
    "pp 2": {"mesh": "world_size = 2\npp_size = 2", "pipeline": "[pipeline]\nmicrobatches = 4"},
    "cp 2": {"mesh": "world_size = 2\ncp_size = 2", "micro": 2},
}
WITH_EXPERTS = {"ep 2": {"mesh": "world_size = 2\nep_size = 2"}}

# Faults (--fault), and for each a layout on which the comparison must detect it.
FAULTS = {
    "labels_of_rank": "fsdp2 3",
    "labels_of_micro_batch": "one rank",
    "mask_shifted": "one rank",
    "labels_of_padding": "fsdp2 3",
    "labels_of_cp_part": "cp 2",
}


def read_tensors(file):
    """Returns the float32 tensors of a safetensors file as arrays."""
    tensors = read_safetensors(file)
    assert {dtype for dtype, _, _ in tensors.values()} == {"F32"}
    return {name: array("f", values) for name, (_, _, values) in tensors.items()}


class ChatGradientsTest(RunTest):
    def setUp(self):
        super().setUp()
        lines = "".join(json.dumps(line) + "\n" for line in EXPECTED["examples"])
        (self.path / "chat.jsonl").write_text(lines)

    def step(self, family, layout, packing, *arguments):
        """Trains one step. Returns its loss, and [sum, norm] of each parameter's gradient, which
        is the difference of the weights before and after: the optimizer is SGD with learning
        rate 1."""
        name = f"run-{len(list(self.path.iterdir()))}"
        values = {"strategy": "", "micro": 1, "pipeline": "", **layout}
        plan = self.write_plan(
            PLAN.format(family=DATA / "hf" / family, packing=str(packing).lower(), **values), name + ".toml")
        result = self.am_run(plan, "--run-dir", name, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        before = read_tensors(DATA / "hf" / family / "model.safetensors")
        after = read_tensors(self.path / name / "export/step-1/model.safetensors")
        gradients = {}
        for parameter in EXPECTED["families"][family]["gradients"]:
            changes = [b - a for b, a in zip(before[parameter], after[parameter], strict=True)]
            gradients[parameter] = [sum(changes), sum(change * change for change in changes) ** 0.5]
        return self.metrics(name)[0]["loss"], gradients

    def errors(self, family, layout, packing, *arguments):
        """Returns the relative error of the loss, and the largest error of a gradient's norm or
        sum. An error of a norm is relative to the norm, and an error of a sum to the norm or
        |sum|, whichever is larger."""
        loss, gradients = self.step(family, layout, packing, *arguments)
        expected = EXPECTED["families"][family]
        worst = 0.0
        for name, (total, norm) in expected["gradients"].items():
            elements = max(1.0, abs(total) / norm)
            found = gradients[name]
            worst = max(worst, abs(found[1] - norm) / norm, abs(found[0] - total) / norm / elements)
        return abs(loss - expected["loss"]) / expected["loss"], worst

    def check(self, family, layouts):
        for name, layout in layouts.items():
            for packing in (True, False):
                with self.subTest(family=family, layout=name, packing=packing):
                    loss, gradient = self.errors(family, layout, packing)
                    self.assertLess(loss, 1e-6)
                    self.assertLess(gradient, 2e-5)

    def test_llama(self):
        self.check("llama", LAYOUTS)

    def test_qwen3(self):
        self.check("qwen3", LAYOUTS)

    def test_mixtral(self):
        self.check("mixtral", LAYOUTS | WITH_EXPERTS)

    def test_planted_mistakes_are_found(self):
        for fault, layout in FAULTS.items():
            with self.subTest(fault):
                loss, gradient = self.errors("llama", LAYOUTS[layout], True, "--fault", fault)
                self.assertGreater(max(loss, gradient), 1e-3)

    def test_validation_counts_each_label_once(self):
        validation = '[validation]\nevery = 1\nsteps = 0\npath = "chat.jsonl"\n'
        plan = self.write_plan(
            PLAN.format(family=DATA / "hf" / "llama", packing="true", strategy=validation, micro=1, pipeline="",
                        mesh="world_size = 2"))
        expected = EXPECTED["families"]["llama"]["loss"]
        for fault, factor in (("", 1.0), ("validation_twice", 0.5)):
            arguments = ["--fault", fault] if fault else []
            result = self.am_run(plan, "--run-dir", f"run-{fault}", "--set", "optimizer.lr=0", *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("; 60 labels in 1 batch\n", result.stderr)
            loss = self.metrics(f"run-{fault}")[0]["validation_loss"]
            self.assertAlmostEqual(loss, factor * expected, delta=1e-5)


if __name__ == "__main__":
    unittest.main()
