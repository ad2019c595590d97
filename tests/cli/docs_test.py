"""Checks the blocks of the documents: commands print the shown output, plans pass, programs compile
(see tests/docs).

A document's commands run in one folder, in order. In this folder, plans/ is a copy of the
repository's plans/, and tests/ is a link to the repository's tests/. An output line `...` stands for any lines.
Times, speeds, losses, memory of the process and digits affected by rounding are not compared.
After an intended change

    AM_RECORD=1 ctest --test-dir build -R docs_test

rewrites the outputs that differ, in full: put `...` where lines do not matter.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from cli_support import BIN, ENVIRONMENT, SOURCE, PlanCase, run_tool
from recorded_sessions import RECORD

sys.path.insert(0, str(SOURCE / "tests" / "docs"))
from blocks import LANGUAGES, blocks, documents  # noqa: E402

PROGRAMS = BIN.parent / "docs"
WIDTH = 80

# (pattern, replacement) of texts that differ between machines and runs.
UNSTEADY = [
    (re.compile(r"\d+:\d\d:\d\d"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? [mu]?s\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)?[kM]?(?= tok/s|/rank\))"), "SPEED"),
    (re.compile(r"(?<=\bloss )-?\d+(\.\d+)?"), "LOSS"),
    (re.compile(r"(?<=\(ppl )\d+(\.\d+)?"), "PERPLEXITY"),
    (re.compile(r"(?<=\bnorm )\d+(\.\d+)?"), "NORM"),
    (re.compile(r"(?<=\bmem )\d+\.\d+ [KMG]iB"), "MEMORY"),
    (re.compile(r"(?<=difference is )\d\.\d(?=e-1\d)"), "ROUNDING"),
    (re.compile(r"\bpid \d+"), "PID"),
    (re.compile(r"^attached to \S+ at step \d+( of \d+)?"), "ATTACHED"),
    (re.compile(r"^step \d+ +\w+ [\d.]+ +[▁▂▃▄▅▆▇█]+$"), "SAMPLE"),
    (re.compile(r"text: .* tokens"), "TEXT"),
    (re.compile(r"^\S+ +different +[\d.e-]+ +[\d.e-]+$"), "DIFFERENCE"),
    (re.compile(r"\b[0-9a-f]{16}(?= +rank \d+ different from rank)"), "CHECKSUM"),
    (re.compile(r"─+"), "─"),
    (re.compile(r" +"), " "),
]


# A command may exit with a nonzero status only if its shown output matches this pattern.
FAILURE = re.compile(r"\berror\b|\bfailed\b|\bdiffer between ranks$")


def steady(line):
    for pattern, name in UNSTEADY:
        line = pattern.sub(name, line)
    return line.rstrip()


def matches(shown, printed):
    """Returns whether the printed lines match the shown ones, where `...` stands for any number of
    lines."""
    if not shown:
        return not printed
    if shown[0].strip() == "...":
        return any(matches(shown[1:], printed[start:]) for start in range(len(printed) + 1))
    return bool(printed) and steady(shown[0]) == steady(printed[0]) and matches(shown[1:], printed[1:])


def commands(text):
    """Returns [command, lines shown] for each command of a console block."""
    found, continues = [], False
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif continues:
            found[-1][0] += "\n" + line
        else:
            found[-1][1].append(line)
        continues = (line.startswith("$ ") or continues) and line.endswith("\\")
    return found


def end_group(group, seconds=30):
    """Sends SIGTERM to the remaining processes of a process group, waits until they have ended,
    and kills those that have not ended after `seconds`."""
    end = time.monotonic() + seconds
    try:
        os.killpg(group, signal.SIGTERM)
        while time.monotonic() < end:
            os.killpg(group, 0)
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Docs(PlanCase):
    maxDiff = None

    def run_command(self, command):
        environment = {**ENVIRONMENT, "PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": str(WIDTH),
                       "HOME": str(self.folder), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=environment, start_new_session=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(end_group, done.pid)  # ends what the command left in the background
        printed, _ = done.communicate(timeout=120)
        return done.returncode, printed.replace(str(self.folder), "/home/me").rstrip("\n").splitlines()

    def hold_console(self, block):
        """Runs the commands of a console block, and returns the block's text, with the current
        output where it differs. Without AM_RECORD, a difference fails the test."""
        now = []
        for command, shown in commands(block.text):
            status, printed = self.run_command(command)
            while shown and not shown[-1]:  # blank lines before the next command
                shown.pop()
            now += ["$ " + command, *(shown if matches(shown, printed) else printed)]
            if status != 0 and not any(FAILURE.search(line) for line in shown):
                self.fail(f"{block.place}: $ {command}\nexit status {status}\n" + "\n".join(printed))
            if not RECORD and not matches(shown, printed):
                self.fail(f"{block.place}: $ {command}\n--- shown\n" + "\n".join(shown) +
                          "\n--- printed\n" + "\n".join(printed))
        return "\n".join(now) + "\n"

    def hold_toml(self, block):
        """Checks a TOML block. A complete plan must pass the rules; in a part of a plan, keys
        and values must be legal."""
        text = block.text
        if not re.search(r"^path = ", text, re.MULTILINE):
            section = '[model]\npath = "plans/models/llama-3.1-8b"\n'
            text = section + text.replace("[model]\n", "", 1) if text.startswith("[model]") else section + text
        self.write("block.toml", text)
        answer = run_tool("am-plan", "check", "block.toml", "--json", cwd=self.folder).json
        found = answer["plans"][0]["diagnostics"]
        whole = text is block.text
        wrong = [item for item in found if whole and item["severity"] == "error" or item["rule"].startswith("plan.")]
        self.assertEqual(wrong, [], block.place)

    def hold(self, block):
        self.assertIn(block.language, LANGUAGES, block.place)
        if "not run" in block.notes:
            self.assertTrue(block.notes["not run"], f"{block.place}: why?")
            return
        name, _, wrong = block.notes.get("file", "").partition(", ")
        if name:
            self.write(name, block.text)
        if block.language == "console":
            now = self.hold_console(block)
            if RECORD and now != block.text:
                text = block.document.read_text()
                assert text.count(block.text) == 1, block.place
                block.document.write_text(text.replace(block.text, now))
        elif block.language == "sh":
            status, printed = self.run_command("set -e\n" + block.text)
            self.assertEqual(status, 0, f"{block.place}\n" + "\n".join(printed))
        elif block.language == "toml" and not wrong:
            self.hold_toml(block)
        elif block.language == "cpp":
            program = PROGRAMS / block.notes.get("program", "")  # am_docs_examples compiles the other blocks
            self.assertTrue(program.exists(), f"{block.place}: {program} is not built")
        else:
            self.assertIn(block.language, ("toml", "json", "python", "cmake", "text"), block.place)

    def run_document(self, document):
        shutil.copytree(SOURCE / "plans", self.folder / "plans")
        (self.folder / "tests").symlink_to(SOURCE / "tests")
        for program in PROGRAMS.glob("*"):
            (self.folder / program.name).symlink_to(program)
        for block in blocks(document):
            self.hold(block)


def add_tests():
    for document in documents(SOURCE):
        name = "test_" + re.sub(r"\W", "_", Path(document).stem.lower())
        setattr(Docs, name, lambda self, document=document: self.run_document(document))


add_tests()


class Readme(unittest.TestCase):
    def test_is_short(self):
        self.assertLessEqual(len((SOURCE / "README.md").read_text().splitlines()), 180)

    def test_links_lead_somewhere(self):
        for document in documents(SOURCE) + [SOURCE / "lib" / "README.md"]:
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
                self.assertTrue((document.parent / target).exists(), f"{document.name}: {target}")


if __name__ == "__main__":
    unittest.main()
