"""Training on this machine's GPUs over NCCL: the losses of PyTorch, as on CPUs. Skipped where NCCL cannot run."""

import ctypes
import json
import subprocess
import unittest

from run_support import BIN, DATA, RunTest, plan_text


def count_gpus():
    """As NVIDIA's driver counts them; raises SkipTest that says why there are none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise unittest.SkipTest(str(error)) from None
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or not count.value:
        raise unittest.SkipTest("the NVIDIA driver shows no GPU")
    return count.value


class GpuTest(RunTest):
    @classmethod
    def setUpClass(cls):
        cls.gpus = count_gpus()

    def train_on(self, ranks, mesh=""):
        if self.gpus < ranks:
            self.skipTest(f"{ranks} GPUs are needed, {self.gpus} are here")
        text = plan_text(mesh=f"world_size = {ranks}\n{mesh}")
        plan = self.write_plan(text.replace('name = "fsdp2"', 'name = "fsdp2"\nbackend = "nccl"'))
        result = self.am_run(plan, "--run-dir", self.path / "run", "--json")
        if "error[runtime.backend]" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        wanted = json.loads((DATA / "loop" / "losses.json").read_text())["losses"]
        records = self.metrics("run")
        for record, loss in zip(records, wanted):
            self.assertAlmostEqual(record["loss"] / loss, 1.0, delta=1e-4)
        self.assertEqual(len(records), 20)
        self.assertGreater(records[-1]["peak_memory_bytes"], 0)

    def test_one_rank(self):
        self.train_on(1)

    def test_what_was_trained_on_a_gpu_goes_on_on_the_cpu(self):
        self.train_on(1)
        plan = self.write_plan(plan_text(mesh="world_size = 1", steps=21).replace(
            'name = "fsdp2"', 'name = "fsdp2"\nbackend = "gloo"'))
        self.train(plan, "run")
        self.assertEqual([r["step"] for r in self.metrics("run")][-1], 21)

    def test_fsdp2_on_two(self):
        self.train_on(2)

    def test_fsdp2_and_tp_on_four(self):
        self.train_on(4, "tp_size = 2")

    def test_am_repl_on_a_gpu(self):
        plan = self.write_plan(plan_text(mesh="world_size = 1").replace(
            'name = "fsdp2"', 'name = "fsdp2"\nbackend = "nccl"'))
        done = subprocess.run([BIN / "am-repl", plan, "-c", "stats *norm*; logprob abc"],
                              capture_output=True, text=True, timeout=120, cwd=self.path)
        if "error[runtime.backend]" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
