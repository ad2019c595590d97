"""Two launchers on one machine simulate two nodes of a job, which train together and fail
together."""
# ctest: waits

import os
import signal
import subprocess
import time
import unittest

from run_support import RunTest, free_port, plan_text

TIMEOUT = 3
LIMIT = TIMEOUT + 10


class NodesTest(RunTest):
    def start_nodes(self, *arguments, more=()):
        """Starts both launchers. Each launcher starts one rank, unless `arguments` contain another
        number of ranks."""
        rdzv = f"127.0.0.1:{free_port()}"
        return [
            self.start("--nnodes", 2, "--node-rank", node, "--rdzv", rdzv, *more,
                       "--run-dir", self.path / "run", *arguments)
            for node in (0, 1)
        ]

    def start_training(self, *options, steps=100000, more=""):
        plan = self.write_plan(plan_text(more, steps=steps))
        (self.path / "run" / "metrics.jsonl").unlink(missing_ok=True)
        return self.start_nodes(plan, "--timeout", TIMEOUT, *options)

    def wait_for_training(self):
        metrics = self.path / "run" / "metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)

    def ends(self, jobs, status, limit=LIMIT):
        """Checks that all launchers end within the limit with this exit status, and leave no
        process. Returns the messages of each launcher."""
        said = []
        for node, job in enumerate(jobs):
            try:
                _, errors = job.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                self.fail(f"the launcher of node {node} hangs: {self.processes_of('run')}")
            said.append(errors)
            self.assertEqual(job.returncode, status, errors)
        self.assertEqual(self.processes_of("run"), {})
        return said


class Training(NodesTest):
    def test_two_nodes_train_the_plan(self):
        self.ends(self.start_training(steps=5), 0, limit=120)
        self.assertEqual([r["step"] for r in self.metrics("run")], [1, 2, 3, 4, 5])
        self.assertEqual(len(self.checkpoint_bytes("run", 5)), 2)

    def test_one_nodes_signal_stops_all_well(self):
        jobs = self.start_training()
        self.wait_for_training()
        jobs[1].send_signal(signal.SIGTERM)
        self.ends(jobs, 0, limit=60)
        last = self.metrics("run")[-1]["step"]
        self.assertTrue((self.path / "run/checkpoints" / f"step-{last}").exists())

    def test_a_program_on_two_nodes(self):
        names = "RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE NUM_NODES MASTER_ADDR"
        script = f'for n in {names}; do eval "echo $n=\\$$n"; done; echo MASTER_PORT=$MASTER_PORT'
        jobs = self.start_nodes("--nproc", 2, "--exec", "sh", "-c", script)
        self.ends(jobs, 0, limit=60)
        said = []
        for rank in range(4):
            log = (self.path / "run" / "logs" / f"rank-{rank}.log").read_text()
            said.append(dict(line.split("=") for line in log.splitlines()))
        self.assertEqual([s["RANK"] for s in said], ["0", "1", "2", "3"])
        self.assertEqual([s["LOCAL_RANK"] for s in said], ["0", "1", "0", "1"])
        self.assertEqual([s["GROUP_RANK"] for s in said], ["0", "0", "1", "1"])
        for same in ("WORLD_SIZE", "NUM_NODES", "MASTER_ADDR", "MASTER_PORT"):
            self.assertEqual(len({s[same] for s in said}), 1, same)


class Faults(NodesTest):
    def test_a_killed_rank_is_named_by_both(self):
        for victim in (0, 1):
            with self.subTest(rank=victim):
                jobs = self.start_training("--resume", "none")
                self.wait_for_training()
                os.kill(self.processes_of("run")[victim], signal.SIGKILL)
                for errors in self.ends(jobs, 1):
                    self.assertIn(f"rank {victim} on node {victim} failed: signal SIGKILL", errors)
                    self.assertIn(f"logs/rank-{victim}.log", errors)

    def test_a_stopped_rank_is_named_by_both(self):
        jobs = self.start_training()
        self.wait_for_training()
        os.kill(self.processes_of("run")[1], signal.SIGSTOP)
        for errors in self.ends(jobs, 1):
            self.assertRegex(errors, r"rank 1 on node 1 hangs[^\n]*: it did not arrive at ")

    def test_a_launcher_that_dies_ends_the_other(self):
        for victim in (0, 1):
            with self.subTest(node=victim):
                jobs = self.start_training("--resume", "none")
                self.wait_for_training()
                jobs[victim].kill()
                jobs[victim].wait()
                (errors,) = self.ends([jobs[1 - victim]], 1)
                if victim == 0:
                    self.assertIn("the launcher of node 0 cannot be reached any more", errors)
                else:
                    self.assertIn("node 1 did not answer", errors)

    def test_all_nodes_start_again(self):
        jobs = self.start_training(
            "--max-restarts", 2, steps=400, more="[checkpoint]\nevery = 100\n")
        self.wait_for((self.path / "run/checkpoints/step-100").exists)
        os.kill(self.processes_of("run")[1], signal.SIGKILL)
        for errors in self.ends(jobs, 0, limit=120):
            self.assertIn("rank 1 on node 1 failed: signal SIGKILL", errors)
            self.assertRegex(errors, r"restart 1 of 2 from step [123]00\n")
        self.assertEqual([r["step"] for r in self.metrics("run")], list(range(1, 401)))

    def start_program(self, script, *options, first=""):
        """Starts two nodes with one rank each, which run the shell commands `first`, then
        `script`. Returns when both ranks have reached `script`."""
        jobs = self.start_nodes(*options, "--exec", "sh", "-c", first + "touch up-$RANK; " + script)
        for rank in (0, 1):
            begun = self.path / f"up-{rank}"
            self.wait_for(begun.exists)
            begun.unlink()
        return jobs

    def test_the_user_is_heard_though_node_0s_launcher_answers_nothing(self):
        jobs = self.start_program("while :; do sleep 0.1; done", first="trap '' TERM; ")
        jobs[0].send_signal(signal.SIGSTOP)
        jobs[1].send_signal(signal.SIGTERM)
        self.wait_for_line(jobs[1], "interrupt again to end the job at once")
        time.sleep(1.1)  # signals within a second count as one request
        jobs[1].send_signal(signal.SIGTERM)
        _, errors = jobs[1].communicate(timeout=LIMIT)
        self.assertEqual(jobs[1].returncode, 1, errors)
        self.assertIn("the job was killed", errors)

    def wait_for_line(self, job, words):
        for line in job.stderr:
            if words in line:
                return
        self.fail(f"the job ended without saying {words!r}")

    def test_a_launcher_that_answers_nothing_ends_the_others(self):
        pairs = [self.start_program("exec sleep 600") for _ in (0, 1)]
        for victim, jobs in enumerate(pairs):
            jobs[victim].send_signal(signal.SIGSTOP)
        for victim, jobs in enumerate(pairs):
            with self.subTest(node=victim):
                _, errors = jobs[1 - victim].communicate(timeout=20)
                jobs[victim].kill()
                self.assertEqual(jobs[1 - victim].returncode, 1, errors)
                if victim == 0:
                    self.assertIn("the launcher of node 0 cannot be reached any more", errors)
                else:
                    self.assertIn("node 1 did not answer", errors)

    def test_a_launcher_that_vanishes_is_missed_by_one_that_waits_for_it(self):
        jobs = self.start_program("[ $RANK = 1 ] && exec sleep 600; exit 0")
        jobs[1].kill()
        jobs[1].wait()
        (errors,) = self.ends([jobs[0]], 1, limit=20)
        self.assertIn("this node's ranks succeeded, but node 1 has given no sign of life", errors)
        self.assertIn("node 1 did not answer", errors)

    def test_a_launcher_that_cannot_start_its_ranks_tells_the_other(self):
        rdzv = f"127.0.0.1:{free_port()}"
        common = ("--nnodes", 2, "--rdzv", rdzv, "--run-dir", self.path / "run")
        for failing in (0, 1):
            with self.subTest(node=failing):
                programs = [["sleep", 600], ["sleep", 600]]
                programs[failing] = ["no-such-program"]
                jobs = [self.start(*common, "--node-rank", node, "--exec", *programs[node])
                        for node in (0, 1)]
                for errors in self.ends(jobs, 2):
                    self.assertIn("cannot start no-such-program: no such program in PATH", errors)

    def test_a_folder_that_another_job_holds_is_refused_on_all_nodes(self):
        plan = self.write_plan(plan_text(steps=1000000))
        holder = self.start(plan, "--run-dir", self.path / "run")
        self.wait_for_training()
        for node, job in enumerate(self.start_nodes(plan, "--timeout", TIMEOUT)):
            _, errors = job.communicate(timeout=LIMIT)
            self.assertEqual(job.returncode, 1, f"node {node}: {errors}")
            self.assertIn(f"another job writes to this folder: process {holder.pid} on ", errors)
        holder.send_signal(signal.SIGTERM)
        _, errors = holder.communicate(timeout=60)
        self.assertEqual(holder.returncode, 0, errors)

    def test_launchers_that_were_started_differently_refuse_the_job(self):
        for option, values in (("--nproc", (1, 3)), ("--max-restarts", (1, 0))):
            with self.subTest(option=option):
                rdzv = f"127.0.0.1:{free_port()}"
                jobs = [self.start("--nnodes", 2, "--node-rank", node, "--rdzv", rdzv, option, values[node],
                                   "--run-dir", self.path / "run", "--exec", "sleep", 600)
                        for node in (0, 1)]
                words = f"node 1 was started with {option} {values[1]}, but node 0 with {option} {values[0]}"
                for errors in self.ends(jobs, 2):
                    self.assertIn(words, errors)

    def test_a_program_that_fails_is_named_by_both(self):
        jobs = self.start_nodes("--exec", "sh", "-c", "[ $RANK = 1 ] && exit 7; exec sleep 600")
        for errors in self.ends(jobs, 7):
            self.assertIn("rank 1 on node 1 failed: exit status 7", errors)


if __name__ == "__main__":
    unittest.main()
