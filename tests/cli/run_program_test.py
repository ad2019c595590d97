"""am-run --exec runs any program on every rank, as torchrun does. With --max-restarts, am-run
restarts a job that failed."""

import json
import os
import resource
import signal
import unittest

from run_support import RunTest, plan_text


class Program(RunTest):
    def sh(self, script, *options, **more):
        return self.am_run(*options, "--run-dir", "run", "--exec", "sh", "-c", script, **more)

    def log(self, rank):
        return (self.path / "run" / "logs" / f"rank-{rank}.log").read_text()

    def test_every_rank_has_torchruns_variables(self):
        names = "RANK LOCAL_RANK GROUP_RANK ROLE_RANK ROLE_NAME WORLD_SIZE LOCAL_WORLD_SIZE "
        names += "GROUP_WORLD_SIZE ROLE_WORLD_SIZE NUM_NODES MASTER_ADDR TORCHELASTIC_RESTART_COUNT "
        names += "TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE "
        names += "TORCH_NCCL_ASYNC_ERROR_HANDLING"
        script = f'for n in {names}; do eval "echo $n=\\$$n"; done; test -n "$MASTER_PORT" -a -n "$OMP_NUM_THREADS"'
        env = {"RANK": "7", "WORLD_SIZE": "9"}  # as an outer launcher may have set them
        result = self.sh(script, "--nproc", "2", "--max-restarts", "3", env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        for rank in (0, 1):
            said = dict(line.split("=", 1) for line in self.log(rank).splitlines())
            self.assertEqual([said[n] for n in ("RANK", "LOCAL_RANK", "ROLE_RANK")], [str(rank)] * 3)
            self.assertEqual([said[n] for n in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")], ["2", "2"])
            self.assertEqual([said[n] for n in ("GROUP_RANK", "GROUP_WORLD_SIZE", "NUM_NODES")], ["0", "1", "1"])
            self.assertEqual(said["MASTER_ADDR"], "127.0.0.1")
            self.assertEqual(said["TORCHELASTIC_MAX_RESTARTS"], "3")
            self.assertEqual(said["TORCHELASTIC_USE_AGENT_STORE"], "False")
            self.assertEqual(said["TORCH_NCCL_ASYNC_ERROR_HANDLING"], "1")
        self.sh(script, env={**env, "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"})
        self.assertIn("TORCH_NCCL_ASYNC_ERROR_HANDLING=3\n", self.log(0))

    def test_how_many_ranks_share_a_gpu(self):
        result = self.sh("echo $AM_RANKS_PER_GPU", "--nproc", "2", "--ranks-per-gpu", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.log(0), self.log(1)), ("2\n", "2\n"))
        self.assertEqual(self.am_run("plan.toml", "--ranks-per-gpu", "0").returncode, 2)

    def test_rank_0s_output_comes_through_and_the_arguments_are_the_programs(self):
        result = self.am_run("--nproc", "2", "--exec", "echo", "--nproc", "--json", "a b")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.splitlines()[1:], ["--nproc --json a b"])
        self.assertEqual((self.path / "runs/echo/logs/rank-1.log").read_text(), "--nproc --json a b\n")

    def test_the_failure_is_told_in_words_and_in_json(self):
        result = self.sh("echo last words; exit $((RANK * 3))", "--nproc", "2", "--json")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("rank 1 on node 0 failed: exit status 3\n", result.stderr)
        self.assertIn("    | last words\n", result.stderr)
        said = json.loads(result.stdout)
        self.assertEqual((said["ok"], said["exit_status"], said["restarts"]), (False, 3, 0))
        self.assertEqual((said["cause"]["rank"], said["cause"]["exit_status"]), (1, 3))
        self.assertTrue(said["cause"]["log"].endswith("run/logs/rank-1.log"))

    def test_descriptors_for_the_ranks_are_there_or_the_job_is_refused(self):
        def limit(soft, hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        # A launcher needs 64 open files, and 3 more for each rank.
        result = self.sh("ulimit -Sn", "--nproc", "4", preexec_fn=limit(60, 76))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([self.log(rank) for rank in (0, 3)], ["60\n"] * 2)
        result = self.sh("exit 7", "--nproc", "4", preexec_fn=limit(60, 75))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("needs 76 open files", result.stderr)
        self.assertIn("may have only 75; no rank was started", result.stderr)
        self.assertIn("ulimit -Hn 76", result.stderr)

    def test_a_signal_is_status_1(self):
        result = self.sh("kill -SEGV $$")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("rank 0 on node 0 failed: signal SIGSEGV", result.stderr)

    def test_wrong_command_lines(self):
        for arguments, words in (
            (["--exec"], "the program is missing"),
            (["plan.toml", "--exec", "true"], "exclude each other"),
            (["--steps", "3", "--exec", "true"], "this option works only with a PLAN"),
            (["--exec", "no-such-program-anywhere"], "no such program in PATH"),
            (["--max-restarts", "-1", "--exec", "true"], "--max-restarts"),
        ):
            with self.subTest(arguments=arguments):
                result = self.am_run(*arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(words, result.stderr)

    def test_sigterm_reaches_the_program_below_a_shell(self):
        (self.path / "program.sh").write_text(
            "trap 'echo saved > saved; exit 0' TERM; touch up; while :; do sleep 0.05; done\n"
        )
        job = self.start("--run-dir", "run", "--exec", "sh", "-c", "sh program.sh; echo not reached")
        self.wait_for((self.path / "up").exists)
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=30)
        self.assertTrue((self.path / "saved").exists())

    def test_a_killed_launcher_leaves_nothing(self):
        script = "sh -c 'echo $$ > child; while :; do sleep 0.05; done' & while :; do sleep 0.05; done"
        job = self.start("--run-dir", "run", "--exec", "sh", "-c", script)
        child = self.path / "child"
        self.wait_for(lambda: child.exists() and child.read_text().endswith("\n"))
        job.kill()
        job.wait()
        self.wait_for(lambda: not alive(int(child.read_text())), seconds=10)

    def test_restarts(self):
        script = "echo attempt $TORCHELASTIC_RESTART_COUNT; exit $((2 * (TORCHELASTIC_RESTART_COUNT < 2)))"
        result = self.sh(script, "--max-restarts", "3", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["restarts"], 2)
        self.assertEqual(result.stderr.count("rank 0 on node 0 failed: exit status 2\n"), 2)
        self.assertIn("restart 2 of 3\n", result.stderr)
        attempts = [line for line in self.log(0).splitlines() if line.startswith("attempt")]
        self.assertEqual(attempts, ["attempt 0", "attempt 1", "attempt 2"])

    def test_the_last_attempts_status_counts(self):
        result = self.sh("exit $((5 + TORCHELASTIC_RESTART_COUNT))", "--max-restarts", "1")
        self.assertEqual(result.returncode, 6, result.stderr)


class Restarts(RunTest):
    """A restarted job resumes from the newest checkpoint that the job itself has written."""

    MORE = "[checkpoint]\nevery = 100\n"
    STEPS = 400

    def run_and_kill_rank_1_after_step_100(self, plan, *options):
        job = self.start(plan, "--run-dir", self.path / "run", "--max-restarts", "2", *options)
        self.wait_for((self.path / "run/checkpoints/step-100").exists)
        self.wait_for(lambda: 1 in self.processes_of("run"))
        os.kill(self.processes_of("run")[1], signal.SIGKILL)
        _, errors = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, errors)
        self.assertIn("rank 1 on node 0 failed: signal SIGKILL", errors)
        self.assertRegex(errors, r"restart 1 of 2 from step [123]00\n")
        self.assertEqual([r["step"] for r in self.metrics("run")], list(range(1, self.STEPS + 1)))
        return errors

    def test_goes_on_as_if_nothing_had_happened(self):
        plan = self.write_plan(plan_text(self.MORE, steps=self.STEPS))
        self.train(plan, "straight")
        self.run_and_kill_rank_1_after_step_100(plan)
        pick = lambda run: [(r["loss"], r["grad_norm"]) for r in self.metrics(run)]
        self.assertEqual(pick("straight"), pick("run"))
        wanted, got = (self.checkpoint_bytes(run, self.STEPS) for run in ("straight", "run"))
        self.assertEqual(wanted, got)

    def test_never_from_an_older_jobs_checkpoint(self):
        older = self.write_plan(plan_text(steps=self.STEPS + 50), "older.toml")
        self.train(older, "run")
        plan = self.write_plan(plan_text(self.MORE, steps=self.STEPS))
        self.run_and_kill_rank_1_after_step_100(plan, "--resume", "none")

    def test_a_users_error_is_not_tried_again(self):
        tokens = self.path / "tokens.bin"
        tokens.write_bytes(b"\xff\x7f" * 4000)  # ids far above the vocabulary
        text = plan_text(data="loop/tokens.bin")
        text = text.replace(str(text.split('path = "')[2].split('"')[0]), str(tokens))
        result = self.am_run(self.write_plan(text), "--run-dir", "run", "--max-restarts", "3")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertNotIn("restart 1", result.stderr)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main()
