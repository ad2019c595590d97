"""The moving average of the parameters: validation and exports use it, training does not."""

import struct

from run_support import DATA, RunTest, plan_text, read_safetensors

VALIDATION = f'[validation]\nevery = 5\nsteps = 2\npath = "{DATA}/loop/tokens.bin"\n'
EXPORT = '[checkpoint]\nexport = "hf"\nevery = 10\n'


def tensors_of(path):
    """Returns {name: [float32 values]} of a safetensors file."""
    tensors = read_safetensors(path)
    assert {dtype for dtype, _, _ in tensors.values()} == {"F32"}
    return {name: struct.unpack(f"<{len(values) // 4}f", values) for name, (_, _, values) in tensors.items()}


class AverageTest(RunTest):
    def plan(self, decay, name, **layout):
        text = plan_text(VALIDATION + EXPORT, **layout)
        return self.write_plan(text.replace("lr = 1e-2\n", f"lr = 1e-2\nema_decay = {decay}\n"), name)

    def validation_losses(self, run):
        return [row["validation_loss"] for row in self.metrics(run) if "validation_loss" in row]

    def exported(self, run, step=20):
        return tensors_of(self.path / run / f"export/step-{step}/model.safetensors")

    def assert_close(self, a, b, delta):
        self.assertEqual(a.keys(), b.keys())
        for name, values in a.items():
            for x, y in zip(values, b[name], strict=True):
                self.assertAlmostEqual(x, y, delta=delta, msg=name)

    def test_training_is_the_same_and_the_average_has_its_own_loss(self):
        self.train(self.plan(0.0, "plain.toml", mesh="world_size = 1"), "plain")
        self.train(self.plan(0.9, "average.toml", mesh="world_size = 1"), "average")
        self.assertEqual([row["loss"] for row in self.metrics("average")], [row["loss"] for row in self.metrics("plain")])
        for plain, average in zip(self.validation_losses("plain"), self.validation_losses("average"), strict=True):
            self.assertGreater(abs(plain - average), 1e-4)
        # The trained parameters of both jobs are equal. Their exports differ, because the export of
        # the second job contains the averages.
        plain, average = self.exported("plain"), self.exported("average")
        self.assertTrue(any(x != y for name in plain for x, y in zip(plain[name], average[name], strict=True)))

    def test_the_average_does_not_depend_on_the_layout(self):
        self.train(self.plan(0.9, "one.toml", mesh="world_size = 1"), "one")
        wanted = self.validation_losses("one")
        for number, layout in enumerate((
                {"mesh": "world_size = 2"}, {"mesh": "world_size = 2\ntp_size = 2"},
                {"mesh": "world_size = 2", "strategy": "ddp"}, {"mesh": "world_size = 2", "strategy": "megatron_fsdp"},
                {"mesh": "world_size = 2\npp_size = 2"})):
            with self.subTest(layout):
                self.train(self.plan(0.9, f"{number}.toml", **layout), f"run-{number}")
                for loss, other in zip(self.validation_losses(f"run-{number}"), wanted, strict=True):
                    self.assertAlmostEqual(loss, other, delta=2e-5)
                self.assert_close(self.exported(f"run-{number}"), self.exported("one"), 2e-3)

    def test_a_resumed_job_has_the_same_average(self):
        plan = self.plan(0.9, "plan.toml")
        self.train(plan, "whole")
        self.train(plan, "parts", "--steps", 10)
        self.train(plan, "parts")
        self.assertEqual(self.validation_losses("parts")[-1], self.validation_losses("whole")[-1])
        self.assertEqual(self.exported("parts"), self.exported("whole"))
