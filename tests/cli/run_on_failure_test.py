"""am-run --on-failure: after a step with non-finite values, the ranks wait for am-repl or save
their state."""

import json
import signal
import subprocess
import time
import unittest

from attach_support import AttachCase
from run_support import BIN, plan_text

FIRST = "model.embed_tokens"  # the first module whose output is not finite


class OnFailure(AttachCase):
    def diverging(self, mesh="world_size = 2"):
        """Writes a plan whose first update makes the parameters overflow, so that step 2 fails."""
        return self.write_plan(plan_text(steps=20, mesh=mesh).replace("lr = 1e-2", "lr = 1e39"))

    def hold(self, *arguments, **plan):
        job = self.start(self.diverging(**plan), "--run-dir", "run", "--on-failure", *arguments)
        control = self.path / "run" / "control" / "control.json"
        self.wait_for(control.exists)
        self.wait_for(lambda: self.status()["paused"] == "a failure")
        return job

    def expect_failure(self, job):
        self.assertEqual(job.wait(timeout=60), 1)
        said = job.stderr.read()
        self.assertIn(f"step 2: the output of {FIRST} in micro-batch 0 on rank 0 (stage 0) is not finite", said)
        return said

    def not_finite(self, answer):
        return [unit["name"] for unit in answer["units"] if unit["nan"] + unit["inf"] > 0]

    def test_am_repl_attaches_to_the_step_that_failed(self):
        job = self.hold("hold=5")
        status = self.status()
        self.assertEqual((status["step"], status["phase"]), (1, "held after a failure"))
        acts, broken = self.repl("run", "acts", "nan model.embed_tokens.weight")
        self.assertEqual(self.not_finite(acts)[0], FIRST)
        self.assertIn("`step` has no effect: the job is held after a failure", self.repl_errors("run", "step 1"))
        saved = self.repl("run", "save", options=["--write"])[0]
        self.assertTrue(saved["checkpoint"].endswith("run/failure/step-1"), saved)
        self.assertEqual(self.repl("run", "continue")[0]["paused"], False)
        said = self.expect_failure(job)
        self.assertIn("held after a failure, for 5 min: step 2: the output of", said)
        # `nan` returns the same counts for the saved checkpoint as for the held job.
        at_rest = self.repl("run/failure/step-1", "nan model.embed_tokens.weight")[0]
        self.assertEqual(at_rest["parameters"], broken["parameters"])

    def test_stages_are_held_too(self):
        job = self.hold("hold", mesh="world_size = 2\npp_size = 2")
        self.assertEqual(self.not_finite(self.repl("run", "acts")[0])[0], FIRST)
        self.repl("run", "continue")
        self.expect_failure(job)

    def test_a_signal_ends_the_hold(self):
        job = self.hold("hold")
        start = time.monotonic()
        job.send_signal(signal.SIGTERM)
        self.expect_failure(job)
        self.assertLess(time.monotonic() - start, 30)

    def test_the_state_is_written(self):
        result = self.am_run(self.diverging(), "--run-dir", "run", "--on-failure", "dump")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("dumped      ", result.stderr)
        self.assertIn("run/failure/step-1: the state before the update of step 2", result.stderr)
        self.assertEqual([p.name for p in (self.path / "run" / "failure").iterdir()], ["step-1"])
        acts = self.repl("run/failure/step-1", "set tokenizer bytes", "acts --of '3 + 4'")[1]
        self.assertEqual(self.not_finite(acts)[0], FIRST)
        opened = subprocess.run([BIN / "am-repl", "run", "-c", "info"], cwd=self.path, text=True, capture_output=True, timeout=60)
        self.assertIn("run/failure/step-1 opens the state at the failure", opened.stderr)
        # A new job in this run folder does not resume from the state that was written after the
        # failure.
        again = self.am_run(self.diverging(), "--run-dir", "run", "--on-failure", "dump", "--json")
        self.assertEqual(json.loads(again.stdout)["trained_steps"], 1)

    def test_wrong_values(self):
        for value in ("stop", "hold=0", "hold=", "hold=1.5", "hold=x", "dump=3"):
            result = self.am_run(self.diverging(), "--on-failure", value)
            self.assertEqual(result.returncode, 2, value)
            self.assertIn("legal: end, hold, hold=MINUTES or dump", result.stderr)
        result = self.am_run(self.diverging(), "--on-failure", "hold", "--no-attach")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--no-attach", result.stderr)


if __name__ == "__main__":
    unittest.main()
