"""The backend that am-run selects, and its error messages if NCCL cannot run.

A fake driver (tests/plugins/fake_cuda_driver.cpp) reports GPUs on a machine that has none.
"""

import os
import shutil
import subprocess

from run_support import BIN, RunTest, plan_text

PLUGINS = BIN.parent / "lib"


def backend_plan(backend):
    return plan_text(steps=1).replace(
        'name = "fsdp2"', f'name = "fsdp2"\nbackend = "{backend}"' if backend else 'name = "fsdp2"')


class BackendTest(RunTest):
    def setUp(self):
        super().setUp()
        drivers = self.path / "drivers"
        drivers.mkdir()
        shutil.copy(PLUGINS / "fake_cuda_driver.so", drivers / "libcuda.so.1")
        self.fake = {"LD_LIBRARY_PATH": str(drivers)}

    def run_plan(self, backend, **env):
        plan = self.write_plan(backend_plan(backend))
        return self.am_run(plan, "--run-dir", self.path / "run", env={**self.fake, **env})

    def assert_refused(self, result, *words, backend="nccl"):
        self.assertEqual(result.returncode, 1, result.stderr)
        for word in ("plan.toml:", "error[runtime.backend]", f'backend "{backend}"',
                     "no rank was started", 'use backend = "gloo"', *words):
            self.assertIn(word, result.stderr)
        self.assertFalse((self.path / "run").exists())

    def test_no_gpu(self):
        self.assert_refused(self.run_plan("nccl", FAKE_GPUS="0", CUDA_VISIBLE_DEVICES=""),
                            "shows this process no GPU", 'CUDA_VISIBLE_DEVICES=""')

    def test_no_gpu_to_share(self):
        result = self.run_plan("cuda:gloo", FAKE_GPUS="0", CUDA_VISIBLE_DEVICES="")
        self.assert_refused(result, "shows this process no GPU", backend="cuda:gloo")

    def test_an_unknown_backend_names_the_legal_ones(self):
        result = self.run_plan("cuda:mpi")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("cuda:gloo", result.stderr)

    def test_the_drivers_own_no_gpu(self):
        self.assert_refused(self.run_plan("nccl", FAKE_CUDA_ERROR="100"),
                            "shows this process no GPU")

    def test_a_driver_in_trouble(self):
        self.assert_refused(self.run_plan("nccl", FAKE_CUDA_ERROR="804"),
                            "error 804, the fake driver's own words")

    def test_a_driver_that_is_none(self):
        (self.path / "drivers" / "libcuda.so.1").unlink()
        shutil.copy(PLUGINS / "tp_plan.so", self.path / "drivers" / "libcuda.so.1")
        self.assert_refused(self.run_plan("nccl"), "libcuda.so.1 is not NVIDIA's driver")

    def test_gpus_without_the_rest(self):
        result = self.run_plan("nccl", FAKE_GPUS="2")
        if "this automesh has no CUDA plugin" in result.stderr:
            self.assert_refused(result, "libautomesh_cuda.so", "when it was built",
                                "-DAM_WITH_CUDA=ON")
        elif "cannot be loaded" in result.stderr:
            self.assert_refused(result, "cannot open shared object file", "scripts/setup --gpu")
        else:  # a libtorch with CUDA loads the fake driver too, and reports no GPU
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("but it sees 0 GPUs", result.stderr)

    def test_without_the_key_gpus_that_cannot_be_used_are_a_warning(self):
        result = self.run_plan("", FAKE_GPUS="2")
        if "but it sees 0 GPUs" in result.stderr:
            self.skipTest("all of CUDA is here but the driver")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("warning[runtime.backend]: this machine has 2 GPUs", result.stderr)
        self.assertIn("on CPUs over gloo", result.stderr)

    def test_without_the_key_and_without_gpus_it_is_gloo(self):
        result = self.run_plan("", FAKE_GPUS="0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("warning", result.stderr)


class VersionTest(RunTest):
    def test_the_nccl_that_is_loaded_and_the_plugins_own(self):
        if not (PLUGINS / "libautomesh_cuda.so").exists():
            self.skipTest("no plugin")
        for tool in ("am-run", "am-repl"):
            version = subprocess.run([BIN / tool, "--version"], capture_output=True, text=True,
                                     env={**os.environ, "LD_PRELOAD": str(PLUGINS / "fake_nccl.so")})
            self.assertRegex(version.stdout, r"\nnccl 2\.27\.3 \(plugin built with \d+\.\d+\.\d+\)")

    def test_nccls_version_where_the_plugin_is(self):
        here = (PLUGINS / "libautomesh_cuda.so").exists()
        for tool in ("am-run", "am-repl"):
            version = subprocess.run([BIN / tool, "--version"], capture_output=True, text=True)
            self.assertRegex(version.stdout,
                             r"\nnccl \d+\.\d+\.\d+ \(plugin\)" if here else "\nnccl: no plugin")
