"""A job whose numbers become non-finite fails without a restart, and its saved checkpoints
remain."""

import json
import unittest

from cli_support import run_tool
from run_support import RunTest, plan_text


class NonFinite(RunTest):
    def test_the_last_good_checkpoint_stays(self):
        more = "[checkpoint]\nevery = 5\nkeep = 1\n"
        self.train(self.write_plan(plan_text(more, steps=5)), "run")
        kept = self.checkpoint_bytes("run", 5)
        plan = self.write_plan(plan_text(more, steps=20).replace("lr = 1e-2", "lr = 1e39"))
        result = self.am_run(plan, "--run-dir", "run", "--max-restarts", "3")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("step 7: the output of model.embed_tokens in micro-batch 0 on rank 0 (stage 0) is not finite; "
                      "the loss is nan on ranks 0, 1", result.stderr)
        self.assertIn("help: the last checkpoint was saved before this step", result.stderr)
        self.assertNotIn("restart 1", result.stderr)
        folders = [folder.name for folder in (self.path / "run/checkpoints").iterdir()]
        self.assertEqual(folders, ["step-5"])
        self.assertEqual(self.checkpoint_bytes("run", 5), kept)

    def test_a_failure_before_the_first_checkpoint(self):
        plan = self.write_plan(plan_text("[checkpoint]\nlast = false\n", steps=20).replace("lr = 1e-2", "lr = 1e39"))
        result = self.am_run(plan, "--run-dir", "run", "--json")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("help: no checkpoint was saved: start again with a lower optimizer.lr", result.stderr)
        said = json.loads(result.stdout)
        kept = json.loads((self.path / "run" / "result.json").read_text())
        for key in ("steps", "trained_steps", "loss", "cause"):
            self.assertEqual(kept[key], said[key])
        self.assertIn("is not finite", kept["cause"]["message"])
        opened = run_tool("am-repl", self.path / "run")
        self.assertEqual(opened.status, 2)
        self.assertIn("this run has saved no checkpoint; its job failed: step", opened.err)
        self.assertIn("-c metrics", opened.err)
        listed = self.am_run("ls", ".", "--json")
        self.assertIn('"failed"', listed.stdout)

    def test_float16_says_its_scale(self):
        text = plan_text(steps=3).replace('param_dtype = "float32"', 'param_dtype = "float16"')
        self.train(self.write_plan(text), "run")
        lines = self.metrics("run")
        self.assertEqual([line["loss_scale"] for line in lines], [65536.0] * 3)
        self.assertEqual([line["skipped_steps"] for line in lines], [0] * 3)


if __name__ == "__main__":
    unittest.main()
