"""Ranks that other launchers start. torchrun itself is run if it is installed; every other
launcher is simulated by the environment variables that it sets for each process."""
# ctest: waits

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import unittest
from pathlib import Path

from run_support import BIN, SOURCE, RunTest, free_port, plan_text


def torchrun():
    """Returns the command that starts torchrun, or None if torchrun is not installed."""
    given = os.environ.get("AM_TORCHRUN")
    if given:
        return given.split()
    # In a virtual environment, torchrun is next to the Python that runs the tests.
    found = shutil.which("torchrun", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if found:
        return [found]
    if importlib.util.find_spec("torch") is not None:
        return [sys.executable, "-m", "torch.distributed.run"]
    return None


# CLEAN is the environment without a launcher's variables: the tests themselves may run under a
# launcher.
PREFIXES = ("SLURM_", "OMPI_", "PMIX_", "PMI_", "MPI_", "PALS_", "PET_", "FLUX_", "TORCHELASTIC_")
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES) and k not in NAMES}


class LauncherTest(RunTest):
    STEPS = 3

    def setUp(self):
        super().setUp()
        self.plan = SOURCE / "plans" / "quickstart.toml"
        self.options = ["--steps", str(self.STEPS), "--set", "scheduler.warmup_steps=0"]

    def command(self, run="run", timeout=30):
        return [str(BIN / "am-run"), str(self.plan), "--run-dir", str(self.path / run), "--timeout",
                str(timeout), *self.options]

    def start_process(self, command, env):
        process = subprocess.Popen(
            command, env={**CLEAN, **env}, cwd=self.path, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    def assert_trained(self):
        self.assertEqual([r["step"] for r in self.metrics("run")], [1, 2, 3])
        shards = self.checkpoint_bytes("run", self.STEPS)
        self.assertEqual(len(shards), 2)


class Variables(LauncherTest):
    def assert_trains(self, variables):
        """Starts one process for each element of `variables`, and checks that they train the
        plan together."""
        ranks = [self.start_process(self.command(), env) for env in variables]
        for rank in ranks:
            _, errors = rank.communicate(timeout=90)
            self.assertEqual(rank.returncode, 0, errors)
        self.assert_trained()

    def slurm(self, ranks):
        """Returns the environment variables that srun sets for each rank."""
        job = {
            "SLURM_JOB_ID": str(100000 + os.getpid()), "SLURM_STEP_ID": "0", "SLURM_NTASKS": str(ranks),
            "SLURM_STEP_NUM_TASKS": str(ranks), "SLURM_NNODES": "1", "SLURM_STEP_NUM_NODES": "1",
            "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": str(ranks),
            "SLURM_STEP_NODELIST": "localhost", "SLURM_JOB_NODELIST": "localhost",
        }
        return [{**job, "SLURM_PROCID": str(r), "SLURM_LOCALID": str(r)} for r in range(ranks)]

    def test_slurm(self):
        self.assert_trains(self.slurm(2))

    def threads_of(self, cpus_per_task):
        """Trains on two ranks under srun with this many CPUs per task. Returns each rank's
        number of threads."""
        self.plan, self.options = self.write_plan(plan_text(steps=1000000)), []
        run = f"run-{cpus_per_task}"
        command = ["env", "--unset=OMP_NUM_THREADS", *self.command(run)]
        more = {"SLURM_CPUS_PER_TASK": str(cpus_per_task)}
        ranks = [self.start_process(command, {**env, **more}) for env in self.slurm(2)]
        metrics = self.path / run / "metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.stat().st_size > 2000)
        counts = [len(os.listdir(f"/proc/{rank.pid}/task")) for rank in ranks]
        for rank in ranks:
            self.end(rank)
        return counts

    def test_slurm_says_how_many_threads_compute(self):
        one, four = self.threads_of(1), self.threads_of(4)
        for rank in (0, 1):
            self.assertGreaterEqual(four[rank] - one[rank], 3, (one, four))

    def test_a_wrong_plan_is_told_once(self):
        self.options += ["--set", "mesh.world_size=4", "--set", "mesh.tp_size=3"]
        ranks = [self.start_process(self.command(), env) for env in self.slurm(4)]
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [1] * 4, said)
        # Only rank 0 prints: the plan's error with its place, and one error line.
        self.assertEqual("".join(said).count("error[mesh."), 1, said)
        self.assertEqual("".join(said).count("the plan is not valid"), 1, said)
        self.assertEqual(said[1:], [""] * 3)

    def test_a_plan_that_one_rank_finds_wrong_is_told_by_it(self):
        right, wrong = self.slurm(2)
        ranks = [self.start_process(self.command(timeout=5), right)]
        self.options += ["--set", "mesh.tp_size=3"]
        ranks.append(self.start_process(self.command(timeout=5), wrong))
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
        self.assertNotIn(0, [rank.returncode for rank in ranks], said)
        self.assertIn("am-run: rank 1: the plan is not valid", said[1])

    def test_open_mpi(self):
        job = {
            "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            "PMIX_NAMESPACE": f"prterun-test-{os.getpid()}@1",
        }
        self.assert_trains(
            [{**job, "OMPI_COMM_WORLD_RANK": r, "OMPI_COMM_WORLD_LOCAL_RANK": r} for r in "01"])

    def test_pmi(self):
        job = {"PMI_SIZE": "2", "MPI_LOCALNRANKS": "2", "MASTER_PORT": str(free_port())}
        self.assert_trains([{**job, "PMI_RANK": r, "MPI_LOCALRANKID": r} for r in "01"])

    def test_kubernetes_pytorch_job(self):
        # Each pod has one process, and no variables for local ranks are set. The address of the
        # master pod is "localhost" in the pod itself.
        job = {"WORLD_SIZE": "2", "MASTER_PORT": str(free_port()), "PYTHONUNBUFFERED": "1"}
        self.assert_trains(
            [{**job, "RANK": "0", "MASTER_ADDR": "localhost"},
             {**job, "RANK": "1", "MASTER_ADDR": "127.0.0.1"}])

    def test_the_hook_of_a_container_beside_slurm(self):
        # A container's hook sets RANK and LOCAL_RANK, but not LOCAL_WORLD_SIZE, in tasks of one
        # Slurm step.
        port = str(free_port())
        hook = [{"RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": port} for r in range(2)]
        self.assert_trains([{**task, **more} for task, more in zip(self.slurm(2), hook)])

    def test_kubeflow_trainer(self):
        # am-run runs once in each pod, and starts the pod's ranks.
        job = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": "127.0.0.1",
               "PET_MASTER_PORT": str(free_port())}
        self.assert_trains([{**job, "PET_NODE_RANK": r} for r in "01"])

    def test_pytorch_job_with_several_processes_a_pod(self):
        job = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port()),
               "PET_NPROC_PER_NODE": "2"}
        self.assert_trains([job])

    def test_one_task_a_machine_with_options_starts_the_ranks(self):
        address = f"127.0.0.1:{free_port()}"
        tasks = []
        for node, task in enumerate(self.slurm(2)):
            task |= {"SLURM_NNODES": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_NODEID": str(node),
                     "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
            placed = ["--nnodes", "2", "--node-rank", str(node), "--nproc", "1", "--rdzv", address]
            tasks.append(self.start_process(self.command() + placed, task))
        for task in tasks:
            _, errors = task.communicate(timeout=90)
            self.assertEqual(task.returncode, 0, errors)
        self.assert_trained()

    def test_options_of_a_launcher_are_refused_in_a_rank(self):
        torchrun_s = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
                      "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        for options in (["--nproc", "2"], ["--max-restarts", "3"],
                        ["--nnodes", "2", "--node-rank", "1", "--rdzv", "x:1"]):
            rank = self.start_process(self.command() + options, torchrun_s)
            _, errors = rank.communicate(timeout=60)
            self.assertEqual(rank.returncode, 2, errors)
            for option in options[::2]:
                self.assertIn(option, errors)

    def wait_in_vain(self, options, env):
        """Starts a process that cannot reach the job's store, checks that it fails, and returns
        its messages."""
        process = self.start_process(self.command(timeout=5) + options, env)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, errors)
        self.assertNotIn("another program", errors)
        return errors

    def test_a_launcher_says_why_it_waits(self):
        for address, reason in ((f"127.0.0.1:{free_port()}", "Connection refused"),
                                ("no-such-host.invalid:29511", "ame")):  # "Name or service .." or "name resolution"
            said = self.wait_in_vain(["--nnodes", "2", "--node-rank", "1", "--rdzv", address], {})
            self.assertIn(f"waiting for node 0 at {address}: ", said)
            self.assertIn(reason, said.split("waiting for node 0 at", 1)[1])

    def test_a_rank_says_why_it_waits(self):
        rank = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        said = self.wait_in_vain([], rank)
        self.assertIn("rank 1 waits for the job at 127.0.0.1:", said)
        self.assertIn("Connection refused", said)

    def test_an_address_of_ipv6_stands_in_brackets(self):
        try:
            with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
                port = server.getsockname()[1]
        except OSError:
            self.skipTest("this machine has no ::1")
        nodes = [self.start_process(
            self.command() + ["--nnodes", "2", "--node-rank", r, "--rdzv", f"[::1]:{port}"], {}) for r in "01"]
        for node in nodes:
            _, errors = node.communicate(timeout=90)
            self.assertEqual(node.returncode, 0, errors)
        self.assert_trained()

    def test_slurm_starts_one_am_run_a_node_which_starts_the_ranks(self):
        # With `srun --ntasks-per-node 1 am-run --exec`, am-run is a launcher, although it is a task
        # of Slurm.
        job = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "1", "SLURM_PROCID": "0",
               "SLURM_LOCALID": "0"}
        inner = " ".join(self.command())
        process = self.start_process(
            [str(BIN / "am-run"), "--nproc", "2", "--run-dir", str(self.path / "outer"),
             "--exec", "sh", "-c", inner], job)
        _, errors = process.communicate(timeout=90)
        self.assertEqual(process.returncode, 0, errors)
        self.assert_trained()


class Torchrun(LauncherTest):
    def setUp(self):
        super().setUp()
        self.torchrun = torchrun()
        if self.torchrun is None:
            self.skipTest("torchrun is not installed: set AM_TORCHRUN, or put it into PATH")

    def start_torchrun(self, *options, command=None):
        command = command or self.command()
        return self.start_process(
            [*self.torchrun, "--no-python", "--nproc-per-node", "2", *options, *command], {})

    def test_trains(self):
        job = self.start_torchrun("--master-port", str(free_port()))
        _, errors = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, errors)
        self.assert_trained()

    def test_trains_with_its_own_rendezvous(self):
        job = self.start_torchrun("--standalone")
        _, errors = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, errors)
        self.assert_trained()

    def test_restarts_a_job_whose_rank_died(self):
        # Rank 1 is killed in the first attempt, after a checkpoint. The second attempt resumes from
        # this checkpoint.
        self.plan = self.write_plan(plan_text("[checkpoint]\nevery = 50\n", steps=300))
        self.options = []
        job = self.start_torchrun("--standalone", "--max-restarts", "1")
        self.wait_for((self.path / "run/checkpoints/step-50").exists)
        self.wait_for(lambda: 1 in self.processes_of("run"))
        os.kill(self.processes_of("run")[1], signal.SIGKILL)
        _, errors = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, errors)
        self.assertEqual([r["step"] for r in self.metrics("run")], list(range(1, 301)))
        self.assertIn("resumed ", errors)

    def test_a_plan_that_is_wrong_is_told_by_whichever_rank_is_first(self):
        self.plan = self.write_plan(plan_text("[scheduler]\nwarmup_steps = 99\n"))
        self.options = []
        _, errors = self.start_torchrun("--standalone").communicate(timeout=120)
        self.assertIn("warmup_steps = 99 is more than max_steps", errors)

    def test_reads_the_error_of_a_rank(self):
        self.plan = self.write_plan(plan_text(data="loop/nothing.bin"))
        self.options = []
        job = self.start_torchrun("--standalone")
        _, errors = job.communicate(timeout=120)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("nothing.bin", errors)


if __name__ == "__main__":
    unittest.main()
