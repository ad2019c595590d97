"""am-repl on PyTorch jobs in Python, which use automesh.live. The tests need a Python in which
the PyTorch version that automesh was built for can be imported: AM_PYTHON names it; by default
it is the Python that runs the tests."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

from attach_support import AttachCase
from job_client import Talker

QUESTIONS = ("norms", "checksum embed.weight", "status", "stats layers.0.up.weight", "ls", "norms grad.*",
             "print head.weight", "ranks", "grad head.weight", "nonsense", "where head.weight",
             "top layers.1.down.weight")
SCRIPT = pathlib.Path(__file__).parent / "train_in_python.py"
PYTHON = os.environ.get("AM_PYTHON", sys.executable)


def environment():
    """Returns the environment in which Python can import torch. Without AM_PYTHON, the torch
    that `scripts/setup --gpu` installed is added to PYTHONPATH."""
    given = dict(os.environ)
    installed = pathlib.Path(os.environ["AM_SOURCE_DIR"]) / ".deps" / "libtorch"
    if "AM_PYTHON" not in os.environ and (installed / "torch").is_dir():
        given["PYTHONPATH"] = str(installed)
    return given


def has(*modules):
    """Returns whether Python can import the modules."""
    return subprocess.run([PYTHON, "-c", "import " + ", ".join(modules)], capture_output=True, env=environment(),
                          timeout=120, check=False).returncode == 0


@unittest.skipUnless(has("torch", "torch.distributed.tensor"), "Python cannot import torch")
class PythonJob(AttachCase):
    def command(self, kind, steps, ranks, keys):
        words = [f"{key}={value}" for key, value in keys.items()]
        return ["--nproc", ranks, "--run-dir", "run", "--exec", PYTHON, "-W", "ignore", SCRIPT, kind, steps, *words]

    def start_python(self, kind, steps=100000, ranks=2, **keys):
        job = self.start(*self.command(kind, steps, ranks, keys), env=environment())
        control = self.path / "run/control/control.json"
        self.wait_for(lambda: job.poll() is not None or control.exists(), 60)
        self.assertIsNone(job.poll(), "the job has ended")
        return job

    def losses(self, ranks):
        logs = [(self.path / f"run/logs/rank-{rank}.log").read_text() for rank in range(ranks)]
        return [re.search(r"loss of rank \d+ (\S+)", log).group(1) for log in logs]

    def test_numbers_are_pythons_and_losses_stay(self):
        for kind, ranks in (("one", 1), ("ddp", 2), ("fsdp2", 3), ("tp", 2), ("tp_fsdp2", 4)):
            with self.subTest(kind):
                alone = self.am_run(*self.command(kind, 40, ranks, {"watch": 0}), env=environment(), timeout=120)
                self.assertEqual(alone.returncode, 0, alone.stderr)
                undisturbed = self.losses(ranks)
                job = self.start_python(kind, 40, ranks, facts=20, nap=0.05)
                client = self.attach()
                self.say(client, "break when step >= 20")
                self.wait_for(lambda: self.status()["paused"] is not None, 60)
                (norms,) = self.repl("run", "norms all grad.* optim.state.*.exp_avg")
                measured = {row["name"]: row["l2"] for row in norms["norms"]}
                expected = json.loads((self.path / "facts.json").read_text())
                for name, norm in expected.items():
                    self.assertAlmostEqual(measured[name], norm, delta=1e-6 * max(norm, 1e-12), msg=name)
                self.assertEqual(set(measured), set(expected) | {"seen"})
                listed = [row["name"] for row in self.repl("run", "ls")[0]["parameters"]]
                self.assertIn("layers.0.up.weight", listed)
                self.assertNotIn("scratch", listed)
                client.stdin.close()
                self.assertEqual(job.wait(timeout=120), 0, job.stderr.read())
                self.assertEqual(self.losses(ranks), undisturbed)

    def test_many_clients_do_not_change_the_losses(self):
        steps, clients, commands = 1500, 10, 20
        alone = self.am_run(*self.command("fsdp2", steps, 2, {"watch": 0}), env=environment(), timeout=280)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        undisturbed = self.losses(2)
        job = self.start_python("fsdp2", steps, 2)
        answered, failed = [], []

        def ask(seed):
            choices = random.Random(seed)
            try:
                with Talker(self.path / "run", seconds=120) as client:
                    for number in range(commands):
                        client.send(id=number, input=choices.choice(QUESTIONS))
                        answered.append(client.reply(number))
            except Exception as error:  # the test reports the thread's error
                failed.append(repr(error))

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        self.assertEqual(len(answered), clients * commands)
        self.assertEqual(job.wait(timeout=280), 0, job.stderr.read())
        self.assertEqual(self.losses(2), undisturbed)

    def test_a_replica_that_differs_is_found(self):
        self.start_python("ddp", diverge="1:5", nap=0.02)
        self.wait_for(lambda: self.status()["step"] > 6)
        found = self.repl("run", "checksum embed.weight", status=3)[0]["parameters"][0]
        self.assertEqual(found["first_difference"]["ranks"], [1])

    def test_a_rank_that_hangs_shows_its_line_and_what_the_others_wait_for(self):
        self.start_python("fsdp2", hang="1:9", nap=0.02)
        self.wait_for(lambda: self.status()["step"] >= 8)
        self.wait_for(lambda: self.repl("run", "ranks")[0]["missing"] == [1], 30)
        ranks = self.repl("run", "ranks")[0]
        self.assertIn("rank 0 waits for rank 1", ranks["text"])
        frames = "\n".join(self.repl("run", "stack 1")[0]["frames"])
        self.assertRegex(frames, r"main  \(.*train_in_python\.py:\d+\)")
        waiting = self.repl("run", "collectives 0")[0]["ranks"][0]["collectives"][0]
        self.assertTrue(waiting["waiting"])
        self.assertIn("train_in_python.py", "\n".join(self.repl("run", "stack 0")[0]["frames"]))

    @unittest.skipUnless((pathlib.Path(PYTHON).parent / "py-spy").exists(), "py-spy is not installed beside Python")
    def test_a_stopped_rank_is_named_with_its_line(self):
        job = self.start_python("fsdp2", nap=0.02)
        self.wait_for(lambda: self.status()["step"] >= 8)
        process = self.process_of(job, 1)
        os.kill(process, signal.SIGSTOP)
        self.addCleanup(os.kill, process, signal.SIGCONT)
        begun = time.monotonic()
        self.assertEqual(self.repl("run", "ranks")[0]["missing"], [1])
        self.assertLess(time.monotonic() - begun, 2.0 + 1.0)  # plus the start of am-repl
        frames = "\n".join(self.repl("run", "stack 1")[0]["frames"])
        self.assertRegex(frames, r"main  \(.*train_in_python\.py:\d+\)")

    def test_a_handler_of_a_signal_runs_in_a_pause(self):
        job = self.start_python("ddp", nap=0.02, sigterm="raise")
        owner = self.attach()
        self.say(owner, "pause")
        begun = time.monotonic()
        for rank in range(2):
            os.kill(self.process_of(job, rank), signal.SIGTERM)
        self.assertNotEqual(job.wait(timeout=60), 0)
        self.assertLess(time.monotonic() - begun, 30)  # not only after the pause, which can last for minutes
        self.assertIn("terminated", (self.path / "run/logs/rank-1.log").read_text())

    def test_a_model_of_transformers_is_exported_with_its_config(self):
        folder = self.path / "hub"
        folder.mkdir()
        (folder / "tokenizer.json").write_text("{}")
        self.start_python("fsdp2", nap=0.02, config=folder)
        _, exported, same = self.repl("run", "pause", "export out --dtype bf16", "diff out", options=["--write"])
        self.assertEqual(exported["files"], ["config.json", "model.safetensors", "tokenizer.json"])
        self.assertEqual({row["status"] for row in same["parameters"]}, {"dtype"})
        self.assertEqual(json.loads((self.path / "out/config.json").read_text()),
                         {"model_type": "toy", "dtype": "bfloat16"})

    def test_the_launcher_says_where_the_other_ranks_were(self):
        result = self.am_run(*self.command("ddp", 100, 2, {"fail": "1:3", "hang": "0:3", "watch": 0}),
                             env=environment(), timeout=120)
        self.assertEqual(result.returncode, 1)
        self.assertIn("ValueError: a planted failure", result.stderr)
        self.assertRegex(result.stderr, r"rank 0 was in main \(train_in_python\.py:\d+\); the whole stack is in the log")

    @unittest.skipUnless(has("numpy"), "torch.distributed.checkpoint needs numpy")
    def test_a_checkpoint_of_the_job_is_compared_with_it(self):
        script = self.path / "save.py"
        script.write_text(f"""
import sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
sys.path.insert(0, {str(SCRIPT.parent)!r})
import automesh.live, train_in_python as job
dist.init_process_group("gloo")
torch.manual_seed(0)
model = job.parallel(job.Net(), "fsdp2")
watch = automesh.live.watch(model)
dcp.save({{"model": model.state_dict()}}, checkpoint_id="saved")
with torch.no_grad():
    model.head.weight.mul_(1.5)
while True:
    dist.barrier()
    watch.step()
""")
        self.start("--nproc", 2, "--run-dir", "run", "--exec", PYTHON, script, env=environment())
        self.wait_for(lambda: (self.path / "run/control/control.json").exists(), 60)
        self.wait_for(lambda: (self.path / "saved/.metadata").exists(), 60)
        self.wait_for(lambda: self.status()["step"] > 0, 60)
        path = str(self.path / "saved")
        differences, drift = self.repl("run", f"diff {path}", f"drift {path}")
        changed = [row["name"] for row in differences["parameters"] if row["status"] != "equal"]
        self.assertEqual(changed, ["head.weight"])
        moved = {row["name"]: row["relative"] for row in drift["parameters"]}
        self.assertAlmostEqual(moved["head.weight"], 0.5, delta=1e-6)
        self.assertEqual(moved["embed.weight"], 0.0)


if __name__ == "__main__":
    unittest.main()
