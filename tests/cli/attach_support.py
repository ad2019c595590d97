"""Helpers shared by the tests of am-repl on running jobs."""

import signal
import subprocess

from answer_schema import check_answers
from run_support import BIN, RunTest, plan_text

LONG = 1000000  # steps of a job that the test ends itself


class AttachCase(RunTest):
    def start_job(self, run="run", steps=LONG, arguments=(), env=None, **plan):
        """Starts a job whose steps are slow, so that clients and other tests find a free
        processor."""
        file = self.write_plan(plan_text(steps=steps, **plan), f"{run}.toml")
        return self.start_job_of(file, run, "--fault", "slow_rank", *arguments, env=env)

    def start_job_of(self, file, run, *arguments, env=None):
        """Starts the job of this plan and waits for its first step."""
        job = self.start(file, "--run-dir", run, "--set", "metrics.every=100000", *arguments, env=env)
        control = self.path / run / "control" / "control.json"
        metrics = self.path / run / "metrics.jsonl"
        self.wait_for(lambda: job.poll() is not None or
                      (control.exists() and metrics.exists() and metrics.stat().st_size > 0))
        self.assertIsNone(job.poll(), "the job has ended")
        return job

    def repl(self, target, *commands, status=0, options=()):
        """Returns the answers to the commands, from am-repl --json."""
        result = subprocess.run(
            [BIN / "am-repl", target, "--json", *options, "-c", "; ".join(commands)],
            capture_output=True, text=True, timeout=60, cwd=self.path)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return check_answers(result.stdout)["results"]

    def attach(self, run="run", options=()):
        """Starts an am-repl that reads commands from a pipe."""
        process = subprocess.Popen(
            [BIN / "am-repl", run, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, bufsize=1, cwd=self.path)
        self.addCleanup(self.leave, process)
        return process

    def leave(self, process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                pass

    def say(self, process, command):
        process.stdin.write(command + "\n")
        process.stdin.flush()
        return process.stdout.readline()

    def stop(self, job, run="run"):
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(timeout=60), 0, job.stderr.read())
        return [line["loss"] for line in self.metrics(run)]

    def status(self, run="run"):
        return self.repl(run, "status")[0]

    def repl_errors(self, target, command, status=1):
        """Returns the stderr of an am-repl that ends with this status."""
        result = subprocess.run([BIN / "am-repl", target, "-c", command], capture_output=True,
                                text=True, timeout=60, cwd=self.path)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stderr

    def process_of(self, job, rank):
        """Returns the process id of a rank."""
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(job.pid)], capture_output=True, text=True,
                                  check=True).stdout.split()
        for child in children:
            with open(f"/proc/{child}/environ", "rb") as file:
                if f"RANK={rank}".encode() in file.read().split(b"\0"):
                    return int(child)
        raise AssertionError(f"no process of rank {rank}")
