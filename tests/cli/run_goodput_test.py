"""am-run divides the time of a job into phases, over all attempts of a job whose ranks were
killed."""

import json
import os
import signal
import subprocess
import time
import unittest

from run_support import BIN, RunTest, plan_text

PHASES = ["starting", "loading", "steps", "steps_again", "saving", "visits", "stopping"]
KILLS = 5
STEPS = 900


class Goodput(RunTest):
    def lines(self):
        try:
            return (self.path / "run/metrics.jsonl").read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def kill_a_rank_after(self, step):
        self.wait_for(lambda: self.lines() >= step)
        os.kill(self.processes_of("run")[1], signal.SIGKILL)

    def test_the_seconds_of_a_job_that_was_killed_five_times(self):
        plan = self.write_plan(plan_text(steps=STEPS, more="[checkpoint]\nevery = 50\nkeep = 2\n"))
        start = time.monotonic()
        job = subprocess.Popen(
            [BIN / "am-run", plan, "--run-dir", self.path / "run", "--max-restarts", str(KILLS), "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.path,
        )
        self.addCleanup(job.kill)
        try:
            for number in range(KILLS):
                self.kill_a_rank_after(150 * number + 75)
                self.wait_for(lambda: self.restarted(number + 1))
        except AssertionError as error:
            job.kill()
            raise AssertionError(f"{error}: {job.communicate()[1]}") from None
        out, words = job.communicate(timeout=250)
        wall = time.monotonic() - start
        self.assertEqual(job.returncode, 0, words)
        said = json.loads(out)
        spent = said["time"]
        self.assertEqual((said["steps"], said["restarts"], spent["failures"]), (STEPS, KILLS, KILLS))
        self.assertEqual(list(spent["seconds"]), PHASES)
        self.assertGreaterEqual(min(spent["seconds"].values()), 0.0)
        total = sum(spent["seconds"].values())
        self.assertLess(abs(total - wall), max(0.01 * wall, 0.1), (total, wall, spent))
        self.assertAlmostEqual(spent["goodput"], spent["seconds"]["steps"] / total)
        # A checkpoint is saved every 50 steps. Each failure loses the steps since the newest one.
        self.assertTrue(KILLS * 10 <= spent["steps_again"] <= KILLS * 100, spent)
        for phase in ("starting", "loading", "steps", "steps_again", "saving"):
            self.assertGreater(spent["seconds"][phase], 0.0, phase)
        metrics = self.metrics("run")
        self.assertEqual([line["step"] for line in metrics], list(range(1, STEPS + 1)))
        self.assertTrue(0.0 < metrics[-1]["goodput"] < 1.0)
        record = json.loads((self.path / "run/result.json").read_text())["time"]
        self.assertEqual(record["seconds"], spent["seconds"])
        self.assertRegex(words, rf"goodput     \d+\.\d %: {KILLS} failures, {spent['steps_again']} steps again, ")

    def restarted(self, number):
        """Returns whether the attempt after failure `number` has begun to record its time."""
        try:
            return json.loads((self.path / "run/result.json").read_text())["time"]["failures"] == number
        except (FileNotFoundError, ValueError):
            return False

    def test_a_short_job_says_it_where_it_is_asked(self):
        said = self.json_of(self.write_plan(plan_text(steps=3)), "--run-dir", "run")
        self.assertEqual(said["time"]["failures"], 0)
        self.assertGreater(said["time"]["seconds"]["steps"], 0.0)
        again = self.am_run(self.write_plan(plan_text(steps=3)), "--run-dir", "run")
        self.assertNotIn("goodput", again.stderr)


if __name__ == "__main__":
    unittest.main()
