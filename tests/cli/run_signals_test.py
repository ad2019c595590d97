"""Signals to a job, and readers of its output that close or pause, never change its losses or
checkpoints."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from run_support import BIN, RunTest, plan_text

EVERY_STEP = "[metrics]\nevery = 1\n[checkpoint]\nkeep = 2\n"


def blocked(task, number):
    """Returns whether a thread blocks the signal, or None if the thread has ended. `task` is the
    thread's folder in /proc/PID/task."""
    try:
        status = (task / "status").read_text()
    except OSError:
        return None
    mask = next(line for line in status.splitlines() if line.startswith("SigBlk:"))
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


class Signals(RunTest):
    def train_endlessly(self, ranks):
        shutil.rmtree(self.path / "run", ignore_errors=True)
        plan = self.write_plan(plan_text(EVERY_STEP, mesh=f"world_size = {ranks}", steps=1000000))
        job = self.start(plan, "--run-dir", self.path / "run")
        metrics = self.path / "run" / "metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
        return job

    def steps(self):
        names = [path.name[5:] for path in (self.path / "run" / "checkpoints").glob("step-*")]
        return sorted(int(name) for name in names if name.isdigit())

    def test_one_thread_of_a_rank_takes_signals(self):
        job = self.train_endlessly(2)
        found = self.processes_of("run")
        for rank in (0, 1):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGPROF):
                masks = [blocked(task, number) for task in Path(f"/proc/{found[rank]}/task").iterdir()]
                self.assertEqual(masks.count(False), 1, f"rank {rank}, {number!r}: {masks}")
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(timeout=60), 0)

    def test_a_flood_of_signals_harms_nothing(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                job = self.train_endlessly(ranks)
                found = self.processes_of("run")
                end = time.monotonic() + 2
                while time.monotonic() < end:
                    for rank in range(ranks):
                        for number in (signal.SIGWINCH, signal.SIGURG, signal.SIGCHLD):
                            os.kill(found[rank], number)
                    os.kill(found[0], signal.SIGUSR1)
                    time.sleep(0.001)
                job.send_signal(signal.SIGTERM)
                _, errors = job.communicate(timeout=60)
                self.assertEqual(job.returncode, 0, errors)
                last = self.metrics("run")[-1]["step"]
                self.assertEqual(self.steps()[-1], last)
                self.train_on(last, ranks)

    def train_on(self, step, ranks):
        """Resumes and trains two more steps, which needs a complete checkpoint of `step`."""
        plan = self.path / "plan.toml"
        self.train(plan, self.path / "run", "--steps", step + 2)
        self.assertEqual(self.metrics("run")[-1]["step"], step + 2)

    def test_sigusr_saves_and_training_goes_on(self):
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            for to_rank in (False, True):
                with self.subTest(signal=number.name, to_rank=to_rank):
                    job = self.train_endlessly(2)
                    to = self.processes_of("run")[1] if to_rank else job.pid
                    os.kill(to, number)
                    self.wait_for(self.steps, seconds=30)
                    saved = self.steps()[0]
                    self.wait_for(lambda: self.metrics("run")[-1]["step"] > saved, seconds=30)
                    self.assertIsNone(job.poll())
                    job.send_signal(signal.SIGTERM)
                    self.assertEqual(job.wait(timeout=60), 0)

    def test_a_stop_can_have_a_status_of_its_own(self):
        plan = self.write_plan(plan_text(EVERY_STEP, steps=1000000))
        job = subprocess.Popen(
            [BIN / "am-run", plan, "--run-dir", self.path / "run", "--stopped-status", "75", "--json"],
            cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        self.addCleanup(job.kill)
        metrics = self.path / "run" / "metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
        job.send_signal(signal.SIGTERM)
        said, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 75)
        result = json.loads(said)
        self.assertEqual((result["ok"], result["stopped"], result["exit_status"]), (True, True, 75))
        last = self.metrics("run")[-1]["step"]
        done = self.am_run(plan, "--run-dir", "run", "--steps", last + 1, "--stopped-status", "75", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(json.loads(done.stdout)["stopped"])

    def test_sigterm_twice_at_once_is_one_request(self):
        """Two SIGTERM within a moment count as one request: GNU timeout sends the signal to its
        child and to the child's process group."""
        for _ in range(3):
            job = self.train_endlessly(2)
            job.send_signal(signal.SIGTERM)
            job.send_signal(signal.SIGTERM)
            _, errors = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 0, errors)
            self.assertEqual(self.steps()[-1], self.metrics("run")[-1]["step"])


class Readers(RunTest):
    """Readers of the job's output that close it or pause."""

    def start_job(self, steps, reader):
        plan = self.write_plan(plan_text(EVERY_STEP, steps=steps))
        job = subprocess.Popen(
            [BIN / "am-run", plan, "--run-dir", self.path / "run"], cwd=self.path, stderr=reader, stdout=reader
        )
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def test_one_that_goes_ends_nothing(self):
        read, write = os.pipe()
        job = self.start_job(300, write)
        os.close(write)
        os.read(read, 20)
        os.close(read)
        self.assertEqual(job.wait(timeout=120), 0)
        self.assertEqual(self.metrics("run")[-1]["step"], 300)
        self.assertTrue((self.path / "run" / "checkpoints" / "step-300").is_dir())
        self.assertIn("step 300", (self.path / "run" / "logs" / "rank-0.log").read_text())

    def test_one_that_pauses_holds_up_nothing(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        job = self.start_job(1000000, write)
        os.close(write)
        metrics = self.path / "run" / "metrics.jsonl"
        # The 64 KiB pipe between rank and launcher holds about 600 lines. Training passes step 1000
        # only if the launcher goes on reading.
        self.wait_for(lambda: metrics.exists() and self.last_step() > 1000)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(timeout=20), 0)
        last = self.last_step()
        self.assertTrue((self.path / "run" / "checkpoints" / f"step-{last}").is_dir())

    def last_step(self):
        with open(self.path / "run" / "metrics.jsonl", "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            lines = [line for line in file.read().splitlines() if line.startswith(b"{") and line.endswith(b"}")]
        return json.loads(lines[-1])["step"] if lines else 0


if __name__ == "__main__":
    unittest.main()
