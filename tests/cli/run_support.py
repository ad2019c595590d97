"""Helpers shared by the tests of am-run: a plan with PyTorch's recorded losses, jobs, and their
processes."""

import json
import os
import socket
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

BIN = Path(os.environ["AM_BIN_DIR"])
SOURCE = Path(os.environ["AM_SOURCE_DIR"])
DATA = SOURCE / "tests" / "data"

FULL_PRECISION = (
    'mp_policy = { param_dtype = "float32", reduce_dtype = "float32", output_dtype = "float32" }'
)


def plan_text(more="", mesh="world_size = 2", strategy="fsdp2", steps=20, data="loop/tokens.bin"):
    """Returns the plan of tests/data/loop: 20 steps whose losses PyTorch has computed too."""
    policy = FULL_PRECISION if strategy == "fsdp2" else ""
    return f"""
[model]
path = "{DATA}/loop/model"
[mesh]
{mesh}
[strategy]
name = "{strategy}"
{policy}
[train]
seq_len = 16
micro_batch_size = 2
global_batch_size = 8
max_steps = {steps}
[optimizer]
lr = 1e-2
[data]
kind = "tokens"
path = "{DATA}/{data}"
shuffle = false
{more}
"""


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="am-run-test-")
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)

    def write_plan(self, text, name="plan.toml"):
        file = self.path / name
        file.write_text(text)
        return file

    def json_of(self, *arguments, status=0):
        """Runs am-run --json, checks its exit status, and returns its JSON output."""
        result = self.am_run(*arguments, "--json")
        self.assertEqual(result.returncode, status, result.stderr)
        return json.loads(result.stdout)

    def am_run(self, *arguments, timeout=300, env=None, preexec_fn=None):
        return subprocess.run(
            [BIN / "am-run", *map(str, arguments)],
            preexec_fn=preexec_fn,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=self.path,
            env={**os.environ, **(env or {})},
        )

    def train(self, plan, run, *arguments):
        result = self.am_run(plan, "--run-dir", run, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def metrics(self, run):
        lines = (self.path / run / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def checkpoint_bytes(self, run, step):
        """Returns {name: bytes} of the ranks' files of a checkpoint. The random id of the save,
        which each file contains once, is replaced."""
        folder = self.path / run / "checkpoints" / f"step-{step}"
        save = json.loads((folder / "checkpoint.json").read_text())["save"].encode()
        files = {file.name: file.read_bytes() for file in sorted(folder.glob("__*.distcp"))}
        self.assertEqual([content.count(save) for content in files.values()], [1] * len(files))
        return {name: content.replace(save, b"SAVE") for name, content in files.items()}

    def start(self, *arguments, env=None):
        """Starts a job in the background. Its stderr is a pipe, and it is killed after the test
        if it still runs."""
        job = subprocess.Popen(
            [BIN / "am-run", *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.path,
            env={**os.environ, **(env or {})},
        )
        self.addCleanup(self.end, job)
        return job

    def end(self, job):
        if job.poll() is None:
            job.kill()
        job.wait()
        job.stderr.close()

    def wait_for(self, condition, seconds=150):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, "waited too long")
            time.sleep(0.02)

    def processes_of(self, run):
        """Returns process ids by role: {"launcher": pid, "guard": pid, 0: pid, 1: pid}.

        Processes are found by the run folder on their command lines. A process with the variable
        RANK is a rank; loggers, which have this variable too, are left out.
        """
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                line = (process / "cmdline").read_bytes()
                if str(self.path / run).encode() not in line or b"_logger.py" in line:
                    continue
                name = (process / "comm").read_text().strip()
                variables = (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            ranks = [v[5:] for v in variables if v.startswith(b"RANK=")]
            kind = "guard" if name == "am-run-guard" else "launcher"
            found[int(ranks[0]) if ranks else kind] = int(process.name)
        return found


def read_safetensors(path):
    """Returns {name: (dtype, shape, bytes)} of the tensors in a safetensors file."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    body = data[8 + size:]
    return {name: (each["dtype"], each["shape"], body[slice(*each["data_offsets"])])
            for name, each in header.items() if name != "__metadata__"}


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(values)]}
        offset += len(values)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(values for _, _, values in tensors.values()))


def why_not(*command):
    """Runs `command`, which tests a requirement. Returns the reason why it fails here, or "" if
    it succeeds."""
    try:
        tried = subprocess.run(command, capture_output=True, text=True)
        return "" if tried.returncode == 0 else tried.stderr.strip()
    except FileNotFoundError as error:
        return f"{error.filename} is not installed"


def require_mount_namespaces():
    """Skips the tests of a class on a machine that does not allow mount namespaces."""
    reason = why_not("unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt")
    if reason:
        raise unittest.SkipTest(f"no mount namespaces: {reason}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
