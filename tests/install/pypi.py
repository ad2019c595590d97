"""Environments with packages of PyPI, for tests that build or install with them."""

import subprocess
import unittest
import venv


def environment_with(folder, packages):
    """Returns the interpreter of an environment that has the packages, which is made in the folder or kept from an earlier run.
    Skips the test if PyPI cannot be reached."""
    python = folder / "bin" / "python"
    stamp = folder / "installed.txt"
    if stamp.exists() and stamp.read_text() == packages:
        return python
    venv.create(folder, with_pip=True, clear=True)
    ended = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages.split()],
                           text=True, capture_output=True)
    if ended.returncode != 0:
        raise unittest.SkipTest(f"{packages} cannot be installed from PyPI: {ended.stderr.strip().splitlines()[-1]}")
    stamp.write_text(packages)
    return python
