"""Exports with optimizer states: training that resumes from an export continues exactly as training
without an interruption."""

import json
import unittest

from cli_support import run_tool
from run_support import DATA, RunTest, plan_text

# Export formats of each model. The exports to OLMo-core do not support experts, and those to
# torchtitan do not support Mixtral.
FORMATS = {
    "llama": ("dcp", "torchtitan", "olmo", "megatron"),
    "qwen3_moe": ("dcp", "torchtitan", "megatron"),
    "mixtral": ("dcp", "megatron"),
}


class OptimizerTest(RunTest):
    def repl(self, target, script, status=0):
        result = run_tool("am-repl", target, "-c", script, env={"OMP_NUM_THREADS": "1"})
        self.assertEqual(result.status, status, result)
        return result

    def plan_of(self, model, more=""):
        """Returns a plan of four steps that saves every second one."""
        saves = f"[checkpoint]\nevery = 2\nkeep = 9\n{more}"
        text = plan_text(mesh="world_size = 1", strategy="ddp", steps=4, more=saves)
        return self.write_plan(text.replace(f'path = "{DATA}/loop/model"', f'path = "{DATA}/hf/{model}"'), f"{model}.toml")

    def checkpoint(self, run, step):
        return self.path / run / "checkpoints" / f"step-{step}"

    def export(self, source, format_name, name):
        folder = self.path / name
        result = self.repl(source, f"export {folder} --format {format_name} --optimizer")
        return folder, result.out

    def test_a_run_continues_from_every_format(self):
        for model, formats in FORMATS.items():
            plan = self.plan_of(model)
            self.train(plan, model)
            for name in formats:
                with self.subTest(model=model, format=name):
                    folder, _ = self.export(self.checkpoint(model, 2), name, f"{model}-{name}")
                    done = self.train(plan, f"{model}-after-{name}", "--resume", folder)
                    self.assertIn("is a checkpoint of another program", done.stdout + done.stderr)
                    self.repl(self.checkpoint(f"{model}-after-{name}", 4), f"same {self.checkpoint(model, 4)}")

    def test_exports_convert_into_each_other(self):
        self.train(self.plan_of("llama"), "llama")
        dcp, _ = self.export(self.checkpoint("llama", 2), "dcp", "dcp")
        for first in ("torchtitan", "olmo", "megatron"):
            folder, _ = self.export(self.checkpoint("llama", 2), first, first)
            back, _ = self.export(folder, "dcp", f"{first}-back")
            self.repl(back, f"same {dcp}")

    def test_settings_go_along_and_differences_are_noted(self):
        self.train(self.plan_of("llama"), "llama")
        for name, key in (("torchtitan", "optimizer.param_groups.output.weight"),
                          ("olmo", "optim.param_groups.lm_head.w_out.weight"),
                          ("dcp", "optim.param_groups.lm_head.weight")):
            folder, _ = self.export(self.checkpoint("llama", 2), name, name)
            for setting, value in (("lr", "0.01"), ("weight_decay", "0.01"), ("eps", "1e-08"), ("initial_lr", "0.01")):
                self.assertIn(value, self.repl(folder, f"print {key}.{setting}").out)
        more = '[[optimizer.group]]\nmatch = ["*norm*"]\nweight_decay = 0.0\n'
        self.train(self.plan_of("llama", more), "groups")
        _, said = self.export(self.checkpoint("groups", 2), "torchtitan", "one-group")
        self.assertIn("note: the parameters have different settings, but torchtitan uses those of tok_embeddings", said)
        # Neither this plan nor Megatron decays norms, so no setting is lost. Megatron decays
        # embeddings, so a note is printed if a plan does not decay them.
        self.assertNotIn("note:", self.export(self.checkpoint("groups", 2), "megatron", "two-groups")[1])
        self.train(self.plan_of("llama", more.replace("norm", "embed")), "embed")
        script = f"mode json; export {self.path}/again --format megatron --optimizer"
        answer = self.repl(self.checkpoint("embed", 2), script).out
        self.assertIn("Megatron applies its own", answer)
        self.assertIn("notes", json.loads(answer))

    def test_what_cannot_be_exported_is_named(self):
        plan = self.plan_of("llama")
        sgd = self.write_plan(plan.read_text().replace("[optimizer]", '[optimizer]\nname = "sgd"\nmomentum = 0.9'), "sgd.toml")
        self.train(sgd, "sgd")
        for name in ("torchtitan", "olmo", "megatron"):
            script = f"export {self.path}/out --format {name} --optimizer"
            result = self.repl(self.checkpoint("sgd", 2), script, status=1)
            self.assertIn("lm_head.weight has the optimizer state momentum_buffer", result.err)
            self.assertFalse((self.path / "out").exists())
        folder, _ = self.export(self.checkpoint("sgd", 2), "dcp", "dcp")
        # SGD's states contain no step count, so the exported step is 0.
        done = self.train(sgd, "sgd-after", "--resume", folder)
        self.assertIn("a checkpoint of another program at step 0", done.stdout + done.stderr)
        # That checkpoint has no states of AdamW.
        failed = self.am_run(plan, "--run-dir", "other", "--resume", folder)
        self.assertNotEqual(failed.returncode, 0)
        self.assertIn("has no optimizer state exp_avg of", failed.stderr)

    def test_weights_without_states_are_no_checkpoint_to_resume_from(self):
        failed = self.am_run(self.plan_of("llama"), "--run-dir", "run", "--resume", DATA / "hf" / "llama")
        self.assertEqual(failed.returncode, 1, failed.stderr)
        self.assertIn("it holds the weights of another program, without optimizer states", failed.stderr)
        self.assertIn("model.weights = ", failed.stderr)


if __name__ == "__main__":
    unittest.main()
