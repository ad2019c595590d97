"""am-run names a slow rank, for which the others wait. `stragglers` and `dashboard` of am-repl
show the times of all ranks."""

import os
import re
import signal
import subprocess
import threading
import time
import unittest

from attach_support import LONG, AttachCase
from repl_terminal import Terminal
from run_support import BIN, plan_text

SLOW = re.compile(r"slow rank   rank (\d+) \(.*\) holds up the others: .* of (\w+) per step, usual: ")
STAGES = "world_size = 4\npp_size = 2"
SAVES = "[checkpoint]\nevery = 5\nkeep = 2\n"


class Stragglers(AttachCase):
    def check_trials(self, fault, named, mesh="world_size = 4", more="", steps=60, trials=3):
        """Trains with a fault. am-run's lines about slow ranks must name exactly the (rank, kind) pairs in `named`. On
        a busy machine other ranks can be slow too, so a trial is repeated up to twice."""
        text = plan_text(more, mesh=mesh, steps=steps)
        for trial in range(trials):
            for attempt in range(3):
                result = self.am_run(self.write_plan(text), "--run-dir", f"run-{trial}-{attempt}", "--set",
                                     "metrics.straggler_seconds=1", "--set", "metrics.every=1000", "--fault", fault)
                self.assertEqual(result.returncode, 0, result.stderr)
                found = set(SLOW.findall(result.stderr))
                if found == named:
                    break
            self.assertEqual(found, named, result.stderr)

    def test_a_rank_that_computes_slowly(self):
        self.check_trials("slow_rank", {("3", "compute")}, steps=120, trials=1)

    def test_a_rank_of_a_pipeline(self):
        self.check_trials("slow_rank", {("3", "compute")}, mesh=STAGES, steps=120, trials=1)

    def test_a_rank_that_waits_for_its_data(self):
        self.check_trials("slow_data", {("3", "data")}, steps=40)

    def test_a_rank_of_a_pipeline_that_waits_for_its_data(self):
        # Ranks 1 and 3 read the same sequences. Rank 1 is the slow rank of stage 0, rank 3 of stage 1.
        self.check_trials("slow_data", {("1", "data"), ("3", "data")}, mesh=STAGES, steps=40, trials=1)

    def test_a_rank_with_a_slow_disk(self):
        self.check_trials("slow_disk", {("3", "saving")}, more=SAVES)

    def test_a_rank_of_a_pipeline_with_a_slow_disk(self):
        self.check_trials("slow_disk", {("3", "saving")}, mesh=STAGES, more=SAVES, trials=1)

    def check_taken_processor(self, mesh):
        """Stops rank 3 for nine tenths of the time. Within a minute, three lines must name rank 3, and no line may name
        another rank."""
        shape = [word for key, value in (("seq_len", 64), ("micro_batch_size", 16), ("global_batch_size", 64))
                 for word in ("--set", f"train.{key}={value}")]  # steps of mostly computation
        job = self.start_job_of(self.write_plan(plan_text(mesh=mesh, steps=LONG)), "run", "--resume", "none", "--set",
                                "metrics.straggler_seconds=1", *shape)
        process = self.process_of(job, 3)
        said = []
        reader = threading.Thread(target=lambda: said.extend(iter(job.stderr.readline, "")))
        reader.start()
        end = time.monotonic() + 60
        try:
            while len(SLOW.findall("".join(said))) < 3:
                self.assertLess(time.monotonic(), end, said)
                os.kill(process, signal.SIGSTOP)
                time.sleep(0.09)
                os.kill(process, signal.SIGCONT)
                time.sleep(0.01)
        finally:
            job.terminate()
            job.wait(timeout=60)
            reader.join()
        self.assertEqual(set(SLOW.findall("".join(said))), {("3", "compute")}, said)

    def test_a_rank_whose_processor_is_taken(self):
        for trial in range(3):
            for mesh in ("world_size = 4", STAGES):
                with self.subTest(mesh, trial=trial):
                    self.check_taken_processor(mesh)

    def test_am_repl_shows_the_times_of_all_ranks(self):
        job = self.start_job()  # its last rank is slow
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

    def seconds_until_shown(self, screen, process):
        """Stops the process, and returns the seconds until the screen shows that the process is stopped."""
        screen.text = ""
        os.kill(process, signal.SIGSTOP)
        start = time.monotonic()
        try:
            screen.expect("stopped")
        finally:
            os.kill(process, signal.SIGCONT)
        taken = time.monotonic() - start
        screen.expect("its process is stopped")
        while "stopped" in screen.expect("step [0-9]+ of "):  # until a complete screen no longer shows "stopped"
            pass
        return taken

    def test_a_screen_shows_a_stopped_rank_within_two_seconds(self):
        job = self.start_job()
        screen = Terminal([BIN / "am-repl", "run", "-c", "dashboard"], self.path, folder=self.path)
        self.addCleanup(os.close, screen.fd)
        screen.resize(24, 80)
        screen.expect("step [0-9]+ of ")
        process = self.process_of(job, 1)
        taken = []
        while not taken or taken[-1] > 2 and len(taken) < 3:
            taken.append(self.seconds_until_shown(screen, process))
        screen.type("q")
        self.assertEqual(screen.wait(), 0)
        self.stop(job)
        self.assertLessEqual(min(taken), 2, taken)

    def test_the_title_of_a_screen_has_the_step_of_the_screen(self):
        job = self.start_job()
        screen = Terminal([BIN / "am-repl", "run", "-c", "dashboard"], self.path, folder=self.path)
        self.addCleanup(os.close, screen.fd)
        screen.resize(24, 80)
        for _ in range(3):
            text = screen.expect("own time")
            titled, step = re.findall(r"llama step ([0-9]+) .*\s+step ([0-9 ]+) of ", text)[-1]
            self.assertLessEqual(abs(int(titled) - int(step.replace(" ", ""))), 1)
        screen.type("q")
        self.assertEqual(screen.wait(), 0)
        self.stop(job)

    def test_twenty_screens_do_not_change_a_bit(self):
        job = self.start_job()
        screens = []
        for _ in range(20):
            screens.append(Terminal([BIN / "am-repl", "run", "-c", "dashboard"], self.path, folder=self.path))
            self.addCleanup(os.close, screens[-1].fd)
            screens[-1].resize(24, 80)
            screens[-1].expect("step [0-9]+ of ")  # a job drops connections of more than eight clients that attach at once
        for _ in range(2):
            for screen in screens:
                screen.expect("step [0-9]+ of ")
        losses = self.stop(job)
        for screen in screens:
            screen.wait()
        self.train(self.path / "run.toml", "plain", "--steps", len(losses), "--no-attach")
        self.assertEqual([line["loss"] for line in self.metrics("plain")], losses)
        self.assertEqual(self.checkpoint_bytes("run", len(losses)), self.checkpoint_bytes("plain", len(losses)))


if __name__ == "__main__":
    unittest.main()
