"""Helpers shared by the command-line tests: running a tool, plans in a temporary folder, JSON
answers.

AM_BIN_DIR is the folder of the binaries, AM_SOURCE_DIR the root of the sources; ctest sets both.
"""

import json
import os
import signal
import subprocess
import tempfile
import unicodedata
import unittest
from pathlib import Path

BIN = Path(os.environ["AM_BIN_DIR"])
SOURCE = Path(os.environ["AM_SOURCE_DIR"])
SANITIZED = "AM_SANITIZED" in os.environ  # am-plan is built with sanitizers, and about 15 times slower
long_search = unittest.skipIf(SANITIZED, "searches hundreds of thousands of layouts")
MODELS = SOURCE / "plans" / "models"

# Restores Python's handler of SIGINT. A shell starts background processes with SIGINT ignored, and
# tools that such a process starts would ignore SIGINT too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Environment of every tool: without TERM, the output is plain text without colours, equal on every
# machine.
ENVIRONMENT = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}


class Result:
    def __init__(self, process):
        self.status = process.returncode
        self.out = process.stdout
        self.err = process.stderr

    @property
    def json(self):
        """Returns the JSON object on stdout."""
        value = json.loads(self.out)
        assert isinstance(value, dict), self.out
        return value

    def __repr__(self):
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def run_tool(tool, *arguments, cwd=None, env=None, timeout=60):
    process = subprocess.run(
        [str(BIN / tool), *map(str, arguments)], cwd=cwd, env={**ENVIRONMENT, **(env or {})},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout)
    return Result(process)


def display_width(line):
    """Returns the number of columns that the line occupies on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


class PlanCase(unittest.TestCase):
    """Tests of am-plan, each with an empty folder for its files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(text)
        return path

    def plan(self, text, model="llama-3.1-8b", name="plan.toml"):
        """Writes a plan, and returns its path. The [model] section occupies its first two lines;
        `text` follows."""
        return self.write(name, f'[model]\npath = "{MODELS / model}"\n{text}')

    def refused_model(self):
        """Returns the folder of a config for which am-plan makes predictions, but which am-run
        refuses: a Falcon with alibi."""
        config = json.loads((MODELS / "falcon-7b" / "config.json").read_text())
        self.write("refused/config.json", json.dumps({**config, "alibi": True}))
        return self.folder / "refused"

    def am_plan(self, *arguments, status=0, **options):
        result = run_tool("am-plan", *arguments, **options)
        self.assertEqual(result.status, status, result)
        return result

    def json(self, *arguments, status=0, **options):
        return self.am_plan(*arguments, "--json", status=status, **options).json

    def diagnostics(self, plan, *arguments, status=1):
        answer = self.json("check", plan, *arguments, status=status)
        self.assertEqual(answer["ok"], status == 0)
        self.assertEqual(len(answer["plans"]), 1)
        return answer["plans"][0]["diagnostics"]

    def rules(self, plan, *arguments, status=1):
        return [item["rule"] for item in self.diagnostics(plan, *arguments, status=status)]
