"""am-run files writes a script for sbatch and a JobSet for Kubernetes. A simulated srun runs the
script, and simulated pods run the JobSet's command."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import unittest

from run_support import BIN, RunTest, free_port, plan_text

# Simulates srun: starts one task per node on this machine with Slurm's variables of the task, and
# returns the largest exit status.
SRUN = """#!/usr/bin/env python3
import os, signal, subprocess, sys
words = sys.argv[1:]
while words[0].startswith("--"):
    words.pop(0)
nodes = int(os.environ["SLURM_NNODES"])
tasks = [subprocess.Popen(words, env={**os.environ, "SLURM_NODEID": str(n), "SLURM_PROCID": str(n),
                                      "SLURM_LOCALID": "0", "SLURM_NTASKS": str(nodes)})
         for n in range(nodes)]
# Slurm sends a signal to all tasks before the time limit; this srun forwards it.
signal.signal(signal.SIGTERM, lambda *_: [task.send_signal(signal.SIGTERM) for task in tasks])
sys.exit(max(task.wait() for task in tasks))
"""
SCONTROL = """#!/bin/sh
case $1 in
  show) echo 127.0.0.1; echo 127.0.0.2 ;;
  requeue) echo "$2" >> requeued ;;
esac
"""


def free_job_number():
    while True:
        number = random.randrange(10000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("", 20000 + number))
                return number


class Files(RunTest):
    def setUp(self):
        super().setUp()
        self.tools = self.path / "tools"
        self.tools.mkdir()
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)

    def two_nodes(self, steps):
        mesh = "world_size = 2\nranks_per_node = 1"
        text = plan_text(mesh=mesh, steps=steps).replace('name = "fsdp2"', 'name = "fsdp2"\nbackend = "gloo"')
        return self.write_plan(text, "My plan.toml")

    def files(self, *arguments, status=0):
        result = self.am_run("files", *arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def sbatch(self, script):
        # The port of the script is 20000 + SLURM_JOB_ID % 10000.
        environment = {**os.environ, "PATH": f"{self.tools}:{BIN}:{os.environ['PATH']}",
                       "SLURM_JOB_ID": str(free_job_number()), "SLURM_NNODES": "2",
                       "SLURM_JOB_NODELIST": "node[1-2]", "OMP_NUM_THREADS": "1"}
        job = subprocess.Popen(["bash", script], cwd=self.path, env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.end, job)
        return job

    def srun_of(self, job):
        children = subprocess.run(["pgrep", "-P", str(job.pid), "-f", "srun"], capture_output=True, text=True)
        return int(children.stdout.split()[0])

    def test_slurm_starts_a_launcher_a_node_and_requeues_what_was_stopped(self):
        script = self.path / "job.sh"
        self.files(self.two_nodes(steps=100000), "--slurm", "-o", script, "--run-dir", self.path / "run")
        text = script.read_text()
        for line in ("--job-name=my-plan", "--nodes=2", "--ntasks-per-node=1", "--signal=TERM@300", "--requeue"):
            self.assertIn(f"#SBATCH {line}\n", text)
        self.assertNotIn("gpus", text)
        job = self.sbatch(script)
        metrics = self.path / "run" / "metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
        os.kill(self.srun_of(job), signal.SIGTERM)
        _, errors = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 75, errors)
        self.assertTrue((self.path / "requeued").exists(), errors)
        last = self.metrics("run")[-1]["step"]
        # The second run of the script resumes the job and finishes it.
        (self.path / "requeued").unlink()
        self.two_nodes(steps=last + 3)
        job = self.sbatch(script)
        _, errors = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, errors)
        self.assertIn(f"step-{last}, step {last}", errors)
        self.assertEqual([row["step"] for row in self.metrics("run")], list(range(1, last + 4)))
        self.assertFalse((self.path / "requeued").exists())

    def test_the_command_allows_plugins_where_the_files_were_allowed_to(self):
        plan = self.two_nodes(steps=2)
        self.assertNotIn("--allow-plugins", self.files(plan, "--slurm").stdout)
        self.assertIn(" --allow-plugins ", self.files(plan, "--slurm", "--allow-plugins").stdout)

    def test_a_jobset_has_a_pod_a_node(self):
        plan = self.two_nodes(steps=2)
        text = self.files(plan, "--jobset", "--image", "hub/am:1", "--run-dir", self.path / "run",
                          "--max-restarts", 5, "--set", "data.seed=1", status=1).stdout
        self.assertEqual(text, "")  # data.seed is not a key of a plan
        text = self.files(plan, "--jobset", "--image", "hub/am:1", "--run-dir", self.path / "run",
                          "--max-restarts", 5, "--set", "train.seed=1").stdout
        for line in ("kind: JobSet", "name: my-plan", "completions: 2", "parallelism: 2", "maxRestarts: 5",
                     "values: [75]", "image: \"hub/am:1\"", "RestartJobSetAndIgnoreMaxRestarts"):
            self.assertIn(line, text)
        self.assertNotIn("nvidia.com/gpu", text)
        command = json.loads(re.search(r"command: \[bash, -c, (.*)\]\n", text)[1])
        self.assertIn("--rdzv=my-plan-node-0-0.my-plan:29500", command)
        # Runs the pods' command. An address of this machine replaces the host name of node 0.
        command = command.replace("my-plan-node-0-0.my-plan:29500", f"127.0.0.1:{free_port()}")
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        pods = [subprocess.Popen(["bash", "-c", command], env={**environment, "JOB_COMPLETION_INDEX": str(node)},
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                for node in (0, 1)]
        for pod in pods:
            self.addCleanup(self.end, pod)
        for pod in pods:
            _, errors = pod.communicate(timeout=120)
            self.assertEqual(pod.returncode, 0, errors)
        self.assertEqual([row["step"] for row in self.metrics("run")], [1, 2])

    def test_gpus_and_one_node(self):
        plan = self.write_plan(plan_text(mesh="world_size = 4"))
        text = self.files(plan, "--slurm").stdout
        self.assertIn("#SBATCH --nodes=1\n", text)
        self.assertIn("#SBATCH --gpus-per-node=4\n", text)
        self.assertNotIn("--rdzv", text)
        self.assertIn("nvidia.com/gpu: 4\n", self.files(plan, "--jobset").stdout)

    def test_what_is_refused(self):
        plan = self.write_plan(plan_text(mesh="world_size = 4\nranks_per_node = 3"))
        self.assertIn("mesh.ranks_per_node must divide", self.files(plan, "--slurm", status=1).stderr)
        self.assertIn("--slurm or --jobset", self.files(plan, status=2).stderr)
        self.files(plan, "--slurm", "--jobset", status=2)
        plan = self.write_plan(plan_text())
        taken = self.path / "taken"
        taken.write_text("mine")
        self.assertIn("--force", self.files(plan, "--slurm", "-o", taken, status=2).stderr)
        self.assertEqual(taken.read_text(), "mine")
        self.files(plan, "--slurm", "-o", taken, "--force")


if __name__ == "__main__":
    unittest.main()
