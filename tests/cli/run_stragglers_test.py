"""Slow ranks: am-run names the rank that the others wait for, and am-repl's `stragglers` and
`dashboard` show the times of all ranks."""

import os
import re
import signal
import subprocess
import time
import unittest

from attach_support import AttachCase
from run_support import BIN, plan_text

SLOW = re.compile(r"slow rank   rank (\d+) \(.*\) holds up the others: .* of (\w+) per step, usual: ")


class Stragglers(AttachCase):
    def lines(self, fault, mesh="world_size = 4", more="", steps=150):
        """Returns (rank, kind) of each line about a slow rank."""
        text = plan_text(more, mesh=mesh, steps=steps)
        result = self.am_run(self.write_plan(text), "--run-dir", "run", "--set", "metrics.straggler_seconds=1",
                             "--set", "metrics.every=1000", "--fault", fault)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = SLOW.findall(result.stderr)
        self.assertTrue(found, result.stderr)
        return set(found)

    def test_a_rank_that_computes_slowly(self):
        self.assertEqual(self.lines("slow_rank"), {("3", "compute")})

    def test_a_rank_of_a_pipeline(self):
        self.assertEqual(self.lines("slow_rank", mesh="world_size = 4\npp_size = 2"), {("3", "compute")})

    def test_a_rank_that_waits_for_its_data(self):
        self.assertEqual(self.lines("slow_data"), {("3", "data")})

    def test_a_rank_with_a_slow_disk(self):
        self.assertEqual(self.lines("slow_disk", more="[checkpoint]\nevery = 5\nkeep = 2\n", steps=60),
                         {("3", "saving")})

    def test_am_repl_shows_the_times_of_all_ranks(self):
        job = self.start_job()  # whose last rank is slow
        self.wait_for(lambda: len(self.metrics("run")) > 100)
        answer = self.repl("run", "stragglers")[0]
        self.assertEqual([(each["rank"], each["slow"]) for each in answer["ranks"]], [(0, None), (1, "compute")])
        self.assertIn("rank 1 (", answer["text"])
        slow = answer["ranks"][1]
        self.assertGreater(slow["compute"], 0.02)
        step = sum(slow[kind] for kind in ("compute", "data", "saving", "waiting"))
        mean = sum(line["step_seconds"] for line in self.metrics("run")[-50:]) / 50
        self.assertLess(abs(step - mean), 0.5 * mean)
        self.stop(job)

    def test_a_dashboard_shows_a_stopped_rank(self):
        job = self.start_job()
        data = self.repl("run", "dashboard")[0]
        self.assertEqual([each["state"] for each in data["ranks"]], ["answers"] * 2)
        process = self.process_of(job, 1)
        before = time.monotonic()
        os.kill(process, signal.SIGSTOP)
        try:
            shown = subprocess.run([BIN / "am-repl", "run", "-c", "dashboard"], cwd=self.path, capture_output=True,
                                   text=True, timeout=60, env={**os.environ, "COLUMNS": "80"})
        finally:
            os.kill(process, signal.SIGCONT)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("stopped", shown.stdout)
        self.assertLessEqual(max(map(len, shown.stdout.splitlines())), 80)
        self.assertLessEqual(len(shown.stdout.splitlines()), 24)
        self.assertLess(time.monotonic() - before, 10)
        self.stop(job)

    def test_dashboards_do_not_change_the_losses(self):
        job = self.start_job()
        clients = [self.attach() for _ in range(5)]
        for _ in range(5):
            for client in clients:
                client.stdin.write("dashboard\n")
                client.stdin.flush()
        self.wait_for(lambda: len(self.metrics("run")) > 60)
        losses = self.stop(job)
        self.train(self.write_plan(plan_text(steps=60)), "plain")
        plain = [line["loss"] for line in self.metrics("plain")]
        self.assertEqual(losses[:60], plain)


if __name__ == "__main__":
    unittest.main()
