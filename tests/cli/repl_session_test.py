"""Recorded sessions of am-repl: see recorded_sessions.py.

A session of sessions/repl names its target, relative to tests/data, in the first line; lines that begin with "> " are
commands, and what follows each is its answer, errors included.
"""

import os
import subprocess
import unittest

from cli_support import BIN, SOURCE
from recorded_sessions import hold

SESSIONS = sorted((SOURCE / "tests" / "cli" / "sessions" / "repl").glob("*.session"))


def answer(target, command):
    environment = {**os.environ, "LC_ALL": "C", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    done = subprocess.run(
        [BIN / "am-repl", target], input=command + "\n", cwd=SOURCE / "tests" / "data", env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return done.stdout


class SessionTest(unittest.TestCase):
    def test_recorded_sessions(self):
        self.assertTrue(SESSIONS)
        for session in SESSIONS:
            with self.subTest(session.name):
                target = session.read_text().splitlines()[0].removeprefix("# target: ")
                hold(self, session, "> ", lambda command, target=target: answer(target, command))


if __name__ == "__main__":
    unittest.main()
