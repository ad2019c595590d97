"""am-run trains on conversations: only the labels of answers count, short examples are packed,
and the loss curve is equal under every layout."""

import json
import unittest

from run_support import DATA, RunTest

LENGTHS = ((5, 9), (2, 3), (12, 1), (1, 14), (7, 7), (3, 2), (9, 4), (4, 11), (6, 1), (2, 2), (10, 5), (1, 1))


def plan_text(mesh, strategy="", data="", steps=3, more=""):
    return f"""
[model]
path = "{DATA}/loop/model"
dtype = "float32"
[mesh]
{mesh}
[strategy]
name = "fsdp2"
mp_policy = {{ param_dtype = "float32", reduce_dtype = "float32", output_dtype = "float32" }}
{strategy}
[train]
seq_len = 16
micro_batch_size = 1
global_batch_size = 4
max_steps = {steps}
[optimizer]
lr = 1e-2
[data]
kind = "chat"
path = "chat.jsonl"
{data}
{more}
"""


class ChatTest(RunTest):
    def setUp(self):
        super().setUp()
        lines = []
        for number, (prompt, answer) in enumerate(LENGTHS):
            ids = [(7 * number + 3 * i) % 60 for i in range(prompt + answer)]
            lines.append({"input_ids": ids, "labels": [-100] * prompt + ids[prompt:]})
        (self.path / "chat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def losses(self, name, *arguments, **plan):
        file = self.write_plan(plan_text(**plan), f"{name}.toml")
        result = self.train(file, name, *arguments)
        return result, [(line["loss"], line["grad_norm"]) for line in self.metrics(name)]

    def test_layouts_divide_by_the_labels_of_the_global_batch(self):
        log, alone = self.losses("alone", mesh="world_size = 1")
        self.assertIn("12 examples", log.stderr)
        self.assertIn("60 labels", log.stderr)
        layouts = {
            "fsdp2": {"mesh": "world_size = 2"},
            "sp": {"mesh": "world_size = 2\ntp_size = 2", "strategy": "sequence_parallel = true"},
            "cp": {"mesh": "world_size = 2\ncp_size = 2"},
            "pp": {"mesh": "world_size = 2\npp_size = 2",
                   "more": "[pipeline]\nschedule = \"1f1b\"\nmicrobatches = 4\n"},
        }
        for name, layout in layouts.items():
            with self.subTest(name):
                _, losses = self.losses(name, **layout)
                for (loss, norm), (expected, expected_norm) in zip(losses, alone, strict=True):
                    self.assertAlmostEqual(loss, expected, delta=1e-5 * expected)
                    self.assertAlmostEqual(norm, expected_norm, delta=1e-5 * expected_norm)

    def test_packed_and_padded_examples_have_one_loss(self):
        # One batch contains all examples, so packed and padded losses are means over equal labels.
        batch = ["--set", "optimizer.lr=0", "--set", "train.global_batch_size={}", "--steps", "1"]
        packed_rows = int(self.losses("look", mesh="world_size = 1", steps=1)[0].stderr.split(" rows")[0].split()[-1])
        batch[3] = f"train.global_batch_size={packed_rows}"
        _, packed = self.losses("packed", *batch, mesh="world_size = 1")
        batch[3] = f"train.global_batch_size={len(LENGTHS)}"
        _, padded = self.losses("padded", *batch, mesh="world_size = 1", data="packing = false")
        self.assertAlmostEqual(packed[0][0], padded[0][0], delta=1e-5 * padded[0][0])
        self.assertAlmostEqual(packed[0][1], padded[0][1], delta=1e-5 * padded[0][1])

    def test_a_job_that_resumes_reads_the_same_examples(self):
        _, whole = self.losses("whole", mesh="world_size = 1", steps=6)
        _, half = self.losses("half", "--steps", "3", mesh="world_size = 1", steps=6)
        _, rest = self.losses("half", mesh="world_size = 2", steps=6)
        self.assertEqual(half, whole[:3])
        for (loss, _), (expected, _) in zip(rest, whole, strict=True):
            self.assertAlmostEqual(loss, expected, delta=1e-5 * expected)

    def test_validation_counts_labels(self):
        more = "[validation]\nevery = 1\nsteps = 1\npath = \"chat.jsonl\"\n"
        for name, mesh in (("alone", "world_size = 1"), ("two", "world_size = 2")):
            self.losses(name, mesh=mesh, more=more, steps=1)
        alone, two = (self.metrics(name)[0]["validation_loss"] for name in ("alone", "two"))
        self.assertAlmostEqual(alone, two, delta=1e-5 * alone)

    def test_messages_without_a_template_are_refused(self):
        (self.path / "chat.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}\n')
        result = self.am_run(self.write_plan(plan_text("world_size = 1")), "--run-dir", "run")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("chat.jsonl:1: messages need a chat template", result.stderr)


if __name__ == "__main__":
    unittest.main()
