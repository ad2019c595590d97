"""Losses of training on this machine's GPUs equal PyTorch's: over NCCL, and with several ranks
on one GPU through host memory. Skipped without a GPU; tests over NCCL are also skipped if there
are fewer GPUs than ranks."""

import ctypes
import subprocess
import unittest

from curve_support import CurveTest, loop_losses, on_backend
from run_support import BIN, plan_text


def count_gpus():
    """Returns the number of GPUs that NVIDIA's driver reports. Raises SkipTest with the reason
    if there is no driver or no GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise unittest.SkipTest(str(error)) from None
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or not count.value:
        raise unittest.SkipTest("the NVIDIA driver shows no GPU")
    return count.value


class GpuTest(CurveTest):
    @classmethod
    def setUpClass(cls):
        cls.gpus = count_gpus()

    def train_on(self, ranks, mesh=""):
        if self.gpus < ranks:
            self.skipTest(f"{ranks} GPUs are needed, {self.gpus} are here")
        text = plan_text(mesh=f"world_size = {ranks}\n{mesh}")
        self.follow(on_backend(text, "nccl"), loop_losses(), "run")

    def test_one_rank(self):
        self.train_on(1)

    def test_what_was_trained_on_a_gpu_goes_on_on_the_cpu(self):
        self.train_on(1)
        plan = self.write_plan(on_backend(plan_text(mesh="world_size = 1", steps=21), "gloo"))
        self.train(plan, "run")
        self.assertEqual([r["step"] for r in self.metrics("run")][-1], 21)

    def test_fsdp2_on_two(self):
        self.train_on(2)

    def test_fsdp2_and_tp_on_four(self):
        self.train_on(4, "tp_size = 2")

    def test_strategies_on_shared_gpus(self):
        self.strategies("cuda:gloo")

    def test_zero_bubble_on_shared_gpus(self):
        self.zero_bubble("cuda:gloo")

    def test_experts_on_shared_gpus(self):
        self.experts("cuda:gloo")

    def test_am_repl_on_a_gpu(self):
        plan = self.write_plan(on_backend(plan_text(mesh="world_size = 1"), "nccl"))
        done = subprocess.run([BIN / "am-repl", plan, "-c", "stats *norm*; logprob abc"],
                              capture_output=True, text=True, timeout=120, cwd=self.path)
        if "error[runtime.backend]" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
