"""Recorded sessions of am-repl: see recorded_sessions.py.

The first line of a session of sessions/repl names its target, relative to tests/data. Lines that
begin with "> " are commands, each followed by its answer, including errors. Each session runs
twice: through a pipe, one command per process, and typed at a terminal of 80 columns.
"""

import os
import re
import subprocess
import unittest

from cli_support import BIN, SOURCE
from recorded_sessions import RECORD, hold
from repl_terminal import TerminalCase

SESSIONS = sorted((SOURCE / "tests" / "cli" / "sessions" / "repl").glob("*.session"))
DATA = SOURCE / "tests" / "data"
PLAIN = {"LC_ALL": "C", "NO_COLOR": "1", "COLUMNS": "80", "OMP_NUM_THREADS": "1"}
# Commands that change the session's state, so that later answers differ from those in a new
# session.
KEPT = re.compile(r"\b(mode|set|let|output|unshard|grad|step)\b")


def target_of(session):
    return session.read_text().splitlines()[0].removeprefix("# target: ")


def piped(target, command):
    done = subprocess.run(
        [BIN / "am-repl", target], input=command + "\n", cwd=DATA, env={**os.environ, **PLAIN},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return done.stdout


class SessionTest(TerminalCase):
    def test_through_a_pipe(self):
        self.assertTrue(SESSIONS)
        for session in SESSIONS:
            with self.subTest(session.name):
                target = target_of(session)
                hold(self, session, "> ", lambda command, target=target: piped(target, command))

    @unittest.skipIf(RECORD, "what is typed has the answers of the pipe")
    def test_typed_at_a_terminal(self):
        for session in SESSIONS:
            with self.subTest(session.name):
                self.terminal = None
                target = target_of(session)
                hold(self, session, "> ", lambda command, target=target: self.typed(target, command))

    def typed(self, target, command):
        if self.terminal is None:
            self.terminal = self.open(target, "[^\n]+> $", {**PLAIN, "PAGER": ""}, DATA)
            self.terminal.resize(60, 80)
        self.terminal.type(command + "\r")
        self.terminal.expect("\r\n")  # the end of the typed line
        # The prompt may be drawn again, because the window has changed.
        text = self.terminal.expect("(?:^|\n)(?:[^\n>]+> )+$")
        if KEPT.search(command):
            self.end(self.terminal)
            self.terminal = None
        return text.replace("\r\n", "\n")


if __name__ == "__main__":
    unittest.main()
