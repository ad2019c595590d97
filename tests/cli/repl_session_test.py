"""Recorded sessions: the commands of sessions/*.session answer as they did when they were recorded.

A session names its target, relative to tests/data, in the first line; lines that begin with "> " are commands, and what
follows each is its answer, errors included. To record one anew after a wanted change:

    AM_RECORD=1 AM_BIN_DIR=build/bin AM_SOURCE_DIR=. python3 tests/cli/repl_session_test.py
"""

import os
import subprocess
import unittest
from pathlib import Path

BIN = Path(os.environ["AM_BIN_DIR"])
TESTS = Path(os.environ["AM_SOURCE_DIR"]) / "tests"
SESSIONS = sorted((TESTS / "cli" / "sessions").glob("*.session"))


def answer(target, command):
    environment = {**os.environ, "LC_ALL": "C", "NO_COLOR": "1"}
    done = subprocess.run(
        [BIN / "am-repl", target], input=command + "\n", cwd=TESTS / "data", env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return done.stdout


class SessionTest(unittest.TestCase):
    maxDiff = None

    def test_recorded_sessions(self):
        self.assertTrue(SESSIONS)
        for session in SESSIONS:
            with self.subTest(session.name):
                recorded = session.read_text()
                first, *lines = recorded.splitlines()
                target = first.removeprefix("# target: ")
                again = [first]
                for line in lines:
                    if line.startswith("> "):
                        again += [line, *answer(target, line[2:]).splitlines()]
                text = "\n".join(again) + "\n"
                if os.environ.get("AM_RECORD"):
                    session.write_text(text)
                else:
                    self.assertEqual(text, recorded)


if __name__ == "__main__":
    unittest.main()
