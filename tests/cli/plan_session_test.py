"""Complete screens of am-plan, at 80 columns: see recorded_sessions.py.

In a session of sessions/plan, lines that begin with "$ " are commands. They run in a folder that
contains copies of the plans in sessions/plan, and a link plans/ to the repository's plans.
"""

import re
import shlex
import shutil
import subprocess
import unittest

from cli_support import BIN, ENVIRONMENT, SOURCE, PlanCase
from recorded_sessions import hold

FOLDER = SOURCE / "tests" / "cli" / "sessions" / "plan"
SESSIONS = sorted(FOLDER.glob("*.session"))
WIDTH = 80

# Lines of diagnostics and of their help may be wider than the terminal. am-plan does not wrap these
# lines, so that editors and grep can read them.
DIAGNOSTIC = re.compile(r"\S+:\d+:\d+: (error|warning|note)\[|help: ")


class PlanSessions(PlanCase):
    def setUp(self):
        super().setUp()
        for plan in FOLDER.glob("*.toml"):
            shutil.copy(plan, self.folder)
        (self.folder / "plans").symlink_to(SOURCE / "plans")

    def answer(self, command):
        tool, *arguments = shlex.split(command)
        self.assertEqual(tool, "am-plan")
        done = subprocess.run(
            [BIN / tool, *arguments], cwd=self.folder, env={**ENVIRONMENT, "COLUMNS": str(WIDTH)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        return done.stdout + (f"exit {done.returncode}\n" if done.returncode else "")

    def test_screens_are_the_recorded_ones(self):
        self.assertTrue(SESSIONS)
        for session in SESSIONS:
            with self.subTest(session.name):
                hold(self, session, "$ ", self.answer)

    def test_no_line_is_wider_than_the_terminal(self):
        for session in SESSIONS:
            for number, line in enumerate(session.read_text().splitlines(), 1):
                if len(line) > WIDTH and not line.startswith("$ ") and not DIAGNOSTIC.match(line):
                    self.fail(f"{session.name}:{number}: {len(line)} columns: {line}")

    def test_every_command_has_a_session(self):
        text = self.am_plan("--help").out.split("Subcommands:")[1].split("Examples:")[0]
        files = {"schema", "lsp", "completions", "man"}  # commands whose output is meant for programs
        for command in set(re.findall(r"^  ([a-z]+)", text, re.MULTILINE)) - files:
            called = f"$ am-plan {command} "
            self.assertTrue(any(called in session.read_text() for session in SESSIONS), command)


if __name__ == "__main__":
    unittest.main()
