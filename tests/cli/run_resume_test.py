"""Jobs that share a run folder, resume from an older step, find the checkpoint of another run,
or are killed while old checkpoints are deleted."""
# ctest: waits

import json
import random
import re
import signal
import subprocess
import time
import unittest

from run_support import BIN, RunTest, free_port, plan_text, why_not


class SharedFolder(RunTest):
    def said(self, *arguments):
        """Runs am-run --json and returns its exit status, JSON object and messages."""
        result = self.am_run(*arguments, "--json")
        return result.returncode, json.loads(result.stdout), result.stderr

    def test_a_sweep_does_not_return_the_first_runs_numbers(self):
        plan = self.write_plan(plan_text(steps=3))
        status, first, _ = self.said(plan)
        self.assertEqual((status, first["steps"], first["trained_steps"]), (0, 3, 3))
        self.assertAlmostEqual(first["loss"], self.metrics("runs/plan")[-1]["loss"])
        status, second, words = self.said(plan, "--set", "optimizer.lr=1e-4")
        self.assertEqual((status, second["steps"], second["trained_steps"]), (0, 3, 0))
        self.assertIsNone(second["loss"])
        self.assertIn("nothing to do: step 3 of 3 is done", words)
        self.assertIn("note        optimizer.lr: 0.01 there, 0.0001 here", words)
        status, third, words = self.said(plan, "--set", "model.seed=1")
        self.assertEqual((status, third["steps"], third["loss"]), (1, None, None))
        self.assertIn("model.seed: 0 there, 1 here", words)

    def test_another_plan_of_the_same_name_is_refused_before_it_starts(self):
        self.train(self.write_plan(plan_text(steps=2)), "run")
        before = (self.path / "run" / "metrics.jsonl").read_text()
        resolved = (self.path / "run" / "plan.toml").read_text()
        other = plan_text(steps=4).replace("seq_len = 16", "seq_len = 8")
        status, said, words = self.said(self.write_plan(other), "--run-dir", "run")
        self.assertEqual(status, 1)
        self.assertIn("train.seq_len: 16 there, 8 here", words)
        self.assertIn("--resume none starts a new run", words)
        self.assertIn("train.seq_len", said["cause"]["message"])
        self.assertEqual((self.path / "run" / "metrics.jsonl").read_text(), before)
        self.assertEqual((self.path / "run" / "plan.toml").read_text(), resolved)
        checkpoint = self.path / "run/checkpoints/step-2"
        words = self.train(self.path / "plan.toml", "run", "--resume", checkpoint).stderr
        self.assertIn("note        train.seq_len: 16 there, 8 here", words)

    def test_a_second_job_in_a_run_folder_is_refused(self):
        plan = self.write_plan(plan_text(steps=1000000))
        first = self.start(plan, "--run-dir", "run")
        self.wait_for((self.path / "run" / "metrics.jsonl").exists)
        second = self.am_run(plan, "--run-dir", "run", "--set", "model.seed=1", timeout=60)
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertIn(f"another job writes to this folder: process {first.pid} on ", second.stderr)
        self.assertIn("--run-dir", second.stderr)
        # If another launcher starts the ranks, rank 0 prints the message.
        env = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        alone = self.write_plan(plan_text(mesh="world_size = 1", steps=5), "alone.toml")
        third = self.am_run(alone, "--run-dir", "run", env=env)
        self.assertEqual(third.returncode, 1, third.stderr)
        self.assertIn(f"another job writes to this folder: process {first.pid} on ", third.stderr)
        first.send_signal(signal.SIGKILL)
        first.wait()
        self.wait_for(lambda: not self.processes_of("run"))
        fourth = self.am_run(plan, "--run-dir", "run", "--steps", 1, "--resume", "none")
        self.assertEqual(fourth.returncode, 0, fourth.stderr)
        self.assertIn(f"was left by process {first.pid} on ", fourth.stderr)
        self.assertEqual((self.path / "run" / "lock").read_text(), "")

    def test_two_run_folders_with_one_checkpoint_folder(self):
        more = f'[checkpoint]\ndir = "{self.path}/saved"\n'
        plan = self.write_plan(plan_text(more, steps=1000000))
        first = self.start(plan, "--run-dir", "one")
        self.wait_for((self.path / "one" / "metrics.jsonl").exists)
        second = self.am_run(plan, "--run-dir", "two", timeout=60)
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertIn(f"{self.path}/saved: another job writes to this folder: process {first.pid} on ",
                      second.stderr)

    def test_a_job_that_fails_at_once_tells_no_other_jobs_numbers(self):
        plan = self.write_plan(plan_text(steps=2))
        self.train(plan, "run")
        (self.path / "run/checkpoints/step-2/checkpoint.json").unlink()
        status, said, words = self.said(plan, "--run-dir", "run", "--steps", "4")
        self.assertEqual(status, 2, words)
        self.assertEqual((said["steps"], said["trained_steps"], said["loss"]), (None, 0, None))

    def test_a_job_that_was_stopped_says_so(self):
        job = subprocess.Popen(
            [BIN / "am-run", self.write_plan(plan_text(steps=1000000)), "--run-dir", "run", "--json"],
            cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.wait_for((self.path / "run" / "metrics.jsonl").exists)
        job.send_signal(signal.SIGTERM)
        said = json.loads(job.communicate(timeout=60)[0])
        steps = self.metrics("run")[-1]["step"]
        self.assertEqual((said["stopped"], said["steps"], said["trained_steps"]), (True, steps, steps))


class GoingBack(RunTest):
    def names(self):
        return sorted(p.name for p in (self.path / "run" / "checkpoints").iterdir())

    def test_a_fresh_start_keeps_its_own_checkpoints(self):
        plan = self.write_plan(plan_text("[checkpoint]\nevery = 10\nkeep = 2\n", steps=40))
        self.train(plan, "run")
        self.assertEqual(self.names(), ["step-30", "step-40"])
        self.train(plan, "run", "--resume", "none", "--steps", "20")
        self.assertEqual(self.names(), ["step-10", "step-20", "step-30.superseded", "step-40.superseded"])
        again = self.train(plan, "run", "--steps", "30").stderr
        self.assertIn("step-20, step 20\n", again)
        self.assertEqual(self.names(), ["step-20", "step-30", "step-30.superseded", "step-40.superseded"])
        self.assertEqual(len((self.path / "run" / "metrics.jsonl.1").read_text().splitlines()), 40)

    def test_restarts_without_checkpoints_are_warned_of_before_the_start(self):
        plan = self.write_plan(plan_text(steps=1))
        words = self.train(plan, "run", "--max-restarts", "2").stderr
        self.assertIn("checkpoint.every = 0 saves nothing before the end", words)
        self.assertNotIn("checkpoint.every", self.train(plan, "other").stderr)


class OtherRanks(RunTest):
    def test_the_batch_and_the_datas_place_are_the_checkpoints(self):
        text = plan_text(mesh="world_size = 1", steps=6).replace("global_batch_size = 8\n", "")
        self.assertIn("batch       2 sequences per step", self.train(self.write_plan(text), "run").stderr)
        self.train(self.write_plan(text), "straight", "--steps", "12")
        rest = text.replace("world_size = 1", "world_size = 2").replace("micro_batch_size = 2",
                                                                        "micro_batch_size = 1")
        self.train(self.write_plan(rest, "rest.toml"), "run", "--steps", "12")
        pairs = zip(self.metrics("run"), self.metrics("straight"))
        for got, wanted in pairs:
            self.assertEqual(got["tokens"], 32)
            self.assertAlmostEqual(got["loss"] / wanted["loss"], 1.0, delta=1e-6)
        self.assertEqual(len(self.metrics("run")), 12)
        checkpoint = self.path / "run/checkpoints/step-12"
        self.assertEqual(json.loads((checkpoint / "checkpoint.json").read_text())["samples"], 24)
        for plan in (checkpoint / "plan.toml", self.path / "run" / "plan.toml"):
            self.assertIn("global_batch_size = 2\n", plan.read_text())

    def test_a_rank_opens_the_files_of_its_own_boxes(self):
        trace = self.path / "trace"
        command = ["strace", "-f", "-qq", "-e", "trace=open,openat,openat2", "-o", trace]
        if reason := why_not(*command, "true"):
            self.skipTest(f"strace does not work here: {reason}")
        plan = self.write_plan(plan_text(mesh="world_size = 4", steps=2))
        self.train(plan, "run")
        resumed = subprocess.run(
            [*command, BIN / "am-run", plan, "--run-dir", "run", "--steps", "3"],
            capture_output=True, text=True, cwd=self.path, timeout=200,
        )
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("step-2, step 2", resumed.stderr)
        opens = re.findall(r'open\w*\([^"]*"[^"]*/step-2/(__\d_0\.distcp)"', trace.read_text())
        # Each of the 4 files is opened twice: rank 0 checks the file, and the rank that wrote the
        # file reads it. If each rank checked all files, there would be 20 opens.
        self.assertEqual(sorted(opens), sorted([f"__{rank}_0.distcp" for rank in range(4)] * 2))


class KilledWhileDropping(RunTest):
    """A job that saves at every step and keeps two checkpoints is killed at random moments."""

    TRIES = 6

    def step_numbers(self, folder):
        return [int(p.name[5:]) for p in folder.iterdir() if p.name[5:].isdigit()]

    def whole_steps(self):
        folder = self.path / "run" / "checkpoints"
        steps = self.step_numbers(folder)
        for step in steps:
            files = {p.name for p in (folder / f"step-{step}").iterdir()}
            self.assertEqual(files, {"checkpoint.json", "index.json", ".metadata", "plan.toml", "config.json",
                                     "__0_0.distcp", "__1_0.distcp"})
        return sorted(steps)

    def test_no_whole_checkpoint_is_lost(self):
        plan = self.write_plan(plan_text("[checkpoint]\nevery = 1\nkeep = 2\n", steps=1000000))
        rng = random.Random(7)
        newest = 0
        for _ in range(self.TRIES):
            job = self.start(plan, "--run-dir", self.path / "run")
            folder = self.path / "run" / "checkpoints"
            # Waits until this job has saved three steps, because the checkpoints of the previous job
            # may be deleted at any moment.
            self.wait_for(lambda: folder.exists() and max(self.step_numbers(folder), default=0) >= newest + 3)
            time.sleep(rng.uniform(0.0, 0.2))
            job.kill()
            said = job.communicate(timeout=60)[1]
            self.wait_for(lambda: not self.processes_of("run"))
            announced = [int(line.split("/step-")[1].split()[0])
                         for line in said.splitlines() if line.startswith("checkpoint ")]
            if newest:
                self.assertIn(f"resumed     {folder}/step-{newest}, step {newest}\n", said)
            steps = self.whole_steps()
            newest = steps[-1]
            self.assertGreaterEqual(newest, announced[-1])
            self.assertIn(len(steps), (2, 3))  # 3 if the job was killed before it deleted the oldest
        self.train(plan, self.path / "run", "--steps", newest + 1)
        left = sorted(p.name for p in (self.path / "run" / "checkpoints").iterdir())
        self.assertEqual(left, sorted([f"step-{newest}", f"step-{newest + 1}"]))


if __name__ == "__main__":
    unittest.main()
