"""Tests the wheel of the training tools (scripts/wheel --train), with torch in the places where users have it.

scripts/setup installed this torch. The tests are skipped, with the reason, if PyPI cannot be reached for Zig, or if the
checkout uses another libtorch.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import wheel_test
from wheel_test import SOURCE, WORK, run

LARGEST = 16e6
PLAN = """[model]
path = "models/quickstart"
[mesh]
world_size = 2
[strategy]
backend = "gloo"
[train]
seq_len = 64
global_batch_size = 4
max_steps = 3
[data]
kind = "synthetic"
"""


def setUpModule():
    global TORCH, WHEELS
    torch = (SOURCE / ".deps" / "torch_dir").read_text().strip() if (SOURCE / ".deps" / "torch_dir").exists() else ""
    TORCH = pathlib.Path(torch)
    if not (TORCH / "version.py").exists():
        raise unittest.SkipTest("scripts/setup has not installed PyPI's torch here")
    python = wheel_test.tools_from_pypi()
    out = SOURCE / "build-wheel" / "train-test"
    environment = dict(os.environ, SOURCE_DATE_EPOCH="1790000000")
    for options in ((), ("--train",)):
        run(sys.executable, SOURCE / "scripts" / "wheel", *options, "--zig", python, "--out", out, env=environment)
    WHEELS = [next(out.glob(f"automesh_{name}-*.whl")) for name in ("tools", "train")]


class TrainWheel(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="am-train-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def environment(self, name="venv", *options):
        """Returns a fresh environment with both wheels, without torch."""
        place = self.folder / name
        run(sys.executable, "-m", "venv", *options, place)
        run(place / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
            "--disable-pip-version-check", *WHEELS)
        return place

    def packages(self, place):
        return next((place / "lib").glob("python3.*/site-packages"))

    def tool(self, place, *words, status=0, **variables):
        """Runs a tool of an environment in a folder with a plan. Neither PATH nor another variable leads to torch."""
        folder = self.folder / "work"
        if not folder.exists():
            folder.mkdir()
            (folder / "plan.toml").write_text(PLAN)
            shutil.copytree(SOURCE / "plans" / "models" / "quickstart", folder / "models" / "quickstart")
        ended = subprocess.run([place / "bin" / words[0], *words[1:]], cwd=folder, text=True, capture_output=True,
                               env={"PATH": f"{place / 'bin'}:/usr/bin:/bin", "HOME": str(self.folder), "LC_ALL": "C.UTF-8",
                                    "OMP_NUM_THREADS": "1", **variables})
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        return ended.stdout + ended.stderr

    def losses(self, place, run_folder, **variables):
        self.tool(place, "am-run", "plan.toml", "--run-dir", run_folder, **variables)
        rows = (self.folder / "work" / run_folder / "metrics.jsonl").read_text().splitlines()
        return [json.loads(row)["loss"] for row in rows if "loss" in json.loads(row)]

    def of_the_build(self):
        """Returns the losses of a run with the am-run of AM_BIN_DIR, the build under test."""
        folder = self.folder / "work"
        program = pathlib.Path(os.environ["AM_BIN_DIR"]) / "am-run"
        subprocess.run([program, "plan.toml", "--run-dir", "reference"], cwd=folder, check=True, capture_output=True,
                       env=dict(os.environ, OMP_NUM_THREADS="1"))
        rows = (folder / "reference" / "metrics.jsonl").read_text().splitlines()
        return [json.loads(row)["loss"] for row in rows if "loss" in json.loads(row)]

    def test_its_platform_size_and_metadata(self):
        shown = run(wheel_test.tools_from_pypi(), "-m", "auditwheel", "show", WHEELS[1])
        tag = re.search(r'platform tag: "manylinux_2_(\d+)_x86_64"', " ".join(shown.split()))
        print(f"{WHEELS[1].name}: {WHEELS[1].stat().st_size / 1e6:.2f} MB")
        self.assertLessEqual(WHEELS[1].stat().st_size, LARGEST)
        if tag:  # auditwheel reports libtorch as missing, because the wheel does not contain it
            self.assertLessEqual(int(tag[1]), 34)
        with zipfile.ZipFile(WHEELS[1]) as archive:
            said = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))).decode()
            self.assertRegex(said, r"\nRequires-Dist: automesh-tools==[\d.]+\nRequires-Dist: torch==\d+\.\d+\.\*\n")
            inside = [name for name in archive.namelist() if str(SOURCE).encode() in archive.read(name)]
            self.assertEqual(inside, [])

    def test_torch_in_the_same_environment(self):
        place = self.environment()
        (self.packages(place) / "torch").symlink_to(TORCH)
        ours = self.losses(place, "same")
        self.assertEqual(len(ours), 3)
        self.assertEqual(ours, self.of_the_build())
        self.assertIn("libtorch 2.", self.tool(place, "am-run", "--version"))
        said = self.tool(place, "am-repl", "same", "-c", "stats; metrics loss")
        self.assertIn("loss", said)
        moved = self.folder / "moved"
        place.rename(moved)
        for script in (moved / "bin").glob("am-*"):
            self.assertFalse(script.is_symlink())
        self.assertEqual(self.losses(moved, "moved"), ours)

    def test_torch_in_a_parent_or_elsewhere(self):
        parent = self.folder / "parent"
        run(sys.executable, "-m", "venv", parent)
        (self.packages(parent) / "torch").symlink_to(TORCH)
        child = self.environment("child")
        (self.packages(child) / "parent.pth").write_text(f"{self.packages(parent)}\n")
        self.assertEqual(len(self.losses(child, "child")), 3)
        other = self.environment("other")
        self.assertEqual(len(self.losses(other, "given", AM_TORCH_DIR=str(TORCH))), 3)
        # The python3 on PATH has torch, as in a container.
        said = self.tool(other, "am-run", "--version", PATH=f"{parent / 'bin'}:/usr/bin:/bin")
        self.assertIn("libtorch 2.", said)

    def test_without_torch_and_with_another_version(self):
        place = self.environment()
        said = self.tool(place, "am-run", "plan.toml", status=1, PATH="/nonexistent:/usr/bin:/bin")
        self.assertIn("no torch is installed for", said)
        self.assertIn("pip install 'torch==2.", said)
        said = self.tool(place, "am-run", "plan.toml", status=1, AM_TORCH_DIR="/nonexistent")
        self.assertIn("AM_TORCH_DIR = /nonexistent has no lib/libtorch_cpu.so", said)
        for version in ("2.9.1+cu130", "2.12.0", "2.110.0", "2.11.0a0+git123", "2.11.0.dev2026", "3.11.0"):
            other = self.folder / f"torch-{version}"
            (other / "lib").mkdir(parents=True)
            (other / "lib" / "libtorch_cpu.so").write_text("never loaded")
            (other / "version.py").write_text(f"from typing import Optional\n__all__ = ['__version__']\n__version__ = '{version}'\n")
            said = self.tool(place, "am-run", "plan.toml", status=1, AM_TORCH_DIR=str(other))
            self.assertIn(f"torch {version} in {other} cannot be used: this automesh was built for torch 2.", said)
        self.assertFalse((self.folder / "work" / "runs").exists())


if __name__ == "__main__":
    unittest.main()
