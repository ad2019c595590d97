"""Faults: if any process dies, stops or blocks, the job ends soon, names the cause, and leaves no
process behind.

Soon means at most 10 s after the timeout of collectives. A job that needs longer counts as
hanging.
"""
# ctest: waits

import os
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path

from run_support import BIN, RunTest, free_port, plan_text

TIMEOUT = 3
LIMIT = TIMEOUT + 10


class Faults(RunTest):
    def start_job(self, *options, more="", steps=100000, run="run", limit=("--timeout", TIMEOUT)):
        plan = self.write_plan(plan_text(more, steps=steps))
        return self.start(plan, "--run-dir", self.path / run, *limit, *options)

    def rank_pid(self, rank, run="run"):
        self.wait_for(lambda: rank in self.processes_of(run))
        return self.processes_of(run)[rank]

    def wait_for_training(self, run="run"):
        metrics = self.path / run / "metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)

    def stop(self, pid):
        """Sends SIGSTOP to a process and waits until all its threads have stopped."""
        os.kill(pid, signal.SIGSTOP)
        states = lambda: [stat.read_text().rsplit(")", 1)[1].split()[0] for stat in self.tasks(pid)]
        self.wait_for(lambda: set(states()) == {"T"})

    def tasks(self, pid):
        return Path(f"/proc/{pid}/task").glob("*/stat")

    def assert_ends(self, job, run="run", status=1):
        """Checks that the job ends within LIMIT with this exit status, and leaves no process.
        Returns its stderr."""
        try:
            _, errors = job.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.fail(f"the job hangs; its processes: {self.processes_of(run)}")
        self.assertEqual(job.returncode, status, errors)
        self.assertEqual(self.processes_of(run), {}, errors)
        self.assertNotIn("terminate called", errors)
        return errors

    def assert_killed(self, errors, rank):
        self.assertIn(f"rank {rank} on node 0 failed", errors)
        self.assertRegex(errors, rf"rank {rank} on node 0 failed[^\n]*: signal SIGKILL")
        self.assertRegex(errors, rf"log: .*/logs/rank-{rank}\.log\n")


class KilledRank(Faults):
    def test_the_limit_may_be_the_plans(self):
        runtime = f"[runtime]\ntimeout_minutes = {TIMEOUT / 60}\n"
        for run, more, limit in (("plan", runtime, ()),
                                 ("option", "[runtime]\ntimeout_minutes = 60\n", ("--timeout", TIMEOUT))):
            with self.subTest(run):
                job = self.start_job(run=run, more=more, limit=limit)
                self.wait_for_training(run)
                self.stop(self.rank_pid(1, run))
                self.assertIn("rank 1 on node 0 hangs", self.assert_ends(job, run))

    def test_at_start(self):
        for rank in (0, 1):
            for delay in (0.0, 0.1, 0.3, 0.7):
                with self.subTest(rank=rank, delay=delay):
                    run = f"run-{rank}-{delay}"
                    job = self.start_job(run=run)
                    pid = self.rank_pid(rank, run)
                    time.sleep(delay)
                    os.kill(pid, signal.SIGKILL)
                    self.assert_killed(self.assert_ends(job, run), rank)

    def test_in_a_collective(self):
        for waiting, stopped in ((0, 1), (1, 0)):
            with self.subTest(killed=waiting):
                run = f"run-{waiting}"
                job = self.start_job(run=run)
                self.wait_for_training(run)
                # The other rank is stopped first. The rank that is killed therefore waits in a
                # collective.
                self.stop(self.rank_pid(stopped, run))
                time.sleep(0.5)
                os.kill(self.rank_pid(waiting, run), signal.SIGKILL)
                errors = self.assert_ends(job, run)
                self.assert_killed(errors, waiting)
                self.assertRegex(errors, r"\n  last state, [\d.]+ m?s before its end: at step \d+, ")

    def test_in_a_checkpoint(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                run = f"run-{rank}"
                job = self.start_job(more="[checkpoint]\nevery = 1\n", run=run)
                checkpoints = self.path / run / "checkpoints"
                self.wait_for((checkpoints / "step-2").exists)
                self.kill_while_it_saves(self.rank_pid(rank, run), checkpoints)
                self.assert_killed(self.assert_ends(job, run), rank)
                whole = sorted(int(p.name[5:]) for p in checkpoints.glob("step-*") if p.suffix != ".tmp")
                self.assertGreaterEqual(len(whole), 2)
                for step in whole:
                    self.assertEqual(len(self.checkpoint_bytes(run, step)), 2, step)
                last = whole[-1]
                again = self.write_plan(plan_text("[checkpoint]\nevery = 1\n", steps=last + 2))
                result = self.train(again, run)
                self.assertRegex(result.stderr, rf"resumed .*step-{last}, step {last}\n")
                self.assertEqual([r["step"] for r in self.metrics(run)], list(range(1, last + 3)))

    def kill_while_it_saves(self, pid, checkpoints):
        """Sends SIGKILL while the process writes a checkpoint; the unfinished folder remains."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if not any(checkpoints.glob("step-*.tmp")):
                continue
            self.stop(pid)
            if any(checkpoints.glob("step-*.tmp")):
                os.kill(pid, signal.SIGKILL)
                return
            os.kill(pid, signal.SIGCONT)
        self.fail("no checkpoint was seen in the making")


class StoppedRank(Faults):
    def test_is_named_by_those_who_wait_for_it(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                run = f"run-{rank}"
                job = self.start_job(run=run)
                self.wait_for_training(run)
                self.stop(self.rank_pid(rank, run))
                errors = self.assert_ends(job, run)
                self.assertRegex(errors, rf"rank {rank} on node 0 hangs[^\n]*: it did not arrive at \S+ \S+ #\d+")
                self.assertIn(f"rank {1 - rank} waited for it: ", errors)
                self.assertRegex(errors, rf"log: .*/logs/rank-{rank}\.log\n")

    def test_at_start(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                run = f"run-{rank}"
                job = self.start_job(run=run)
                self.stop(self.rank_pid(rank, run))
                self.assertRegex(self.assert_ends(job, run), rf"rank {rank} on node 0 (hangs|failed)")


    def test_without_a_launcher(self):
        # Rank 0 serves the store: if rank 0 is stopped, rank 1 cannot query the store either.
        for rank in (0, 1):
            with self.subTest(rank=rank):
                run = f"run-alone-{rank}"
                common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
                common["MASTER_PORT"] = str(free_port())
                plan = self.write_plan(plan_text(steps=100000))
                options = (plan, "--run-dir", self.path / run, "--timeout", TIMEOUT)
                ranks = [self.start(*options, env={**common, "RANK": r, "LOCAL_RANK": r}) for r in "01"]
                self.wait_for_training(run)
                self.stop(ranks[rank].pid)
                said = self.assert_ends(ranks[1 - rank], run="run-none")
                self.assertRegex(said, rf"rank {rank}\b[^\n]*(no sign of life|does not answer)")


class PortInUse(Faults):
    def setUp(self):
        super().setUp()
        self.taken = socket.socket()
        self.addCleanup(self.taken.close)
        self.taken.bind(("127.0.0.1", 0))
        self.taken.listen()
        self.port = self.taken.getsockname()[1]

    def test_under_a_launcher(self):
        plan = self.write_plan(plan_text())
        common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        common["MASTER_PORT"] = str(self.port)
        options = (plan, "--run-dir", self.path / "run", "--timeout", TIMEOUT)
        ranks = [self.start(*options, env={**common, "RANK": r, "LOCAL_RANK": r}) for r in "01"]
        said = self.assert_ends(ranks[0], run="run-none")
        self.assertIn(str(self.port), said)
        self.assertRegex(said, "in use")
        self.assertIn(str(self.port), self.assert_ends(ranks[1], run="run-none"))
        self.assertEqual(self.processes_of("run"), {})

    def test_of_the_rendezvous(self):
        job = self.start_job("--rdzv", f"127.0.0.1:{self.port}")
        errors = self.assert_ends(job)
        self.assertRegex(errors, rf"{self.port}[^\n]* in use")


class FileSizeLimit(Faults):
    """`ulimit -f` limits the size of files. The kernel sends SIGXFSZ at the limit, which kills a
    process that does not ignore it."""

    def run_limited(self, kib):
        plan = self.write_plan(plan_text(steps=2))
        command = [BIN / "am-run", plan, "--run-dir", self.path / "run", "--timeout", str(TIMEOUT)]
        return subprocess.run(["bash", "-c", f'ulimit -f {kib}; exec "$@"', "bash", *command],
                              capture_output=True, text=True, timeout=60)

    def test_that_leaves_no_room_for_shared_memory_ends_nothing(self):
        result = self.run_limited(600)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([record["step"] for record in self.metrics("run")], [1, 2])

    def test_that_leaves_no_room_for_a_checkpoint_names_the_file(self):
        result = self.run_limited(100)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"__\d_0\.distcp: cannot write: File too large")


class AnotherPlan(Faults):
    def test_is_refused_before_training(self):
        common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        common["MASTER_PORT"] = str(free_port())
        texts = [plan_text(), plan_text().replace("lr = 1e-2", "lr = 2e-2")]
        ranks = []
        for rank, text in enumerate(texts):
            plan = self.write_plan(text, f"plan-{rank}.toml")
            env = {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            ranks.append(self.start(plan, "--run-dir", self.path / "run", "--timeout", TIMEOUT, env=env))
        said = [self.assert_ends(rank, run="run-none") for rank in ranks]
        for text in said:
            self.assertRegex(text, r"rank 1\b[^\n]*plan|plan[^\n]*rank 1\b")
        self.assertFalse((self.path / "run" / "metrics.jsonl").exists())


class Launcher(Faults):
    def test_killed_takes_all_ranks_with_it(self):
        for moment in ("start", "training"):
            with self.subTest(moment=moment):
                run = f"run-{moment}"
                job = self.start_job(run=run)
                self.rank_pid(1, run)
                if moment == "training":
                    self.wait_for_training(run)
                job.kill()
                job.wait()
                self.wait_for(lambda: self.processes_of(run) == {}, seconds=5)

    def test_a_second_signal_ends_at_once(self):
        # The script ignores SIGTERM and SIGINT, so after one signal the launcher would wait
        # forever.
        script = "trap '' TERM INT; touch up-$RANK; while :; do sleep 0.1; done"
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                job = self.start("--nproc", 2, "--run-dir", self.path / "run", "--exec", "sh", "-c", script)
                for rank in (0, 1):
                    self.wait_for((self.path / f"up-{rank}").exists)
                job.send_signal(number)
                self.wait_for_line(job, "interrupt again to end the job at once")
                if number == signal.SIGTERM:
                    time.sleep(1.1)  # signals within a second count as one request
                job.send_signal(number)
                self.assertIn("the job was killed", self.assert_ends(job))
                for rank in (0, 1):
                    (self.path / f"up-{rank}").unlink()

    def wait_for_line(self, job, words):
        for line in job.stderr:
            if words in line:
                return
        self.fail(f"the job ended without saying {words!r}")

    def test_one_signal_at_start_ends_well(self):
        job = self.start_job()
        self.rank_pid(1)
        job.send_signal(signal.SIGTERM)
        _, errors = job.communicate(timeout=60)
        self.assertIn(job.returncode, (0, 1), errors)
        self.assertEqual(self.processes_of("run"), {})


if __name__ == "__main__":
    unittest.main()
