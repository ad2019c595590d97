"""am-repl on a pseudo-terminal, for tests that type."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import tempfile
import termios
import time
import unittest
from pathlib import Path

BIN = Path(os.environ["AM_BIN_DIR"])
MODEL = Path(os.environ["AM_SOURCE_DIR"]) / "tests" / "data" / "hf" / "llama-sharded"
PROMPT = "llama llama-sharded> "


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, arguments, state, env=None, folder="."):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            for name in ("NO_COLOR", "COLUMNS"):
                os.environ.pop(name, None)
            os.environ.update({"TERM": "xterm", "XDG_STATE_HOME": str(state), "LC_ALL": "C.UTF-8", **(env or {})})
            os.chdir(folder)
            os.execv(arguments[0], list(map(str, arguments)))
        self.text = ""

    def resize(self, rows, columns):
        """Sets the size of the terminal, as a terminal window does when the user resizes it."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, timeout):
        ready, _, _ = select.select([self.fd], [], [], timeout)
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the program has closed the terminal
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, timeout=20):
        """Waits until the output matches the pattern. Returns the output before the match, and
        drops the output up to the end of the match."""
        deadline = time.time() + timeout
        while True:
            # A completion hint is followed by a carriage return and a column move, which put the
            # cursor back.
            plain = re.sub(r"\r\x1b\[[0-9]+G|\x1b\[[0-9;?]*[A-Za-z@]|\x1b[=>]", "", self.text)
            found = re.search(pattern, plain)
            if found:
                self.text = plain[found.end():]
                return plain[:found.start()]
            if time.time() > deadline:
                raise AssertionError(f"no {pattern!r} in {plain!r}")
            self.read(0.1)

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self):
        deadline = time.time() + 20
        while time.time() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            self.read(0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("the program did not end")


class TerminalCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="am-repl-test-")
        self.addCleanup(self.folder.cleanup)

    def open(self, target=MODEL, prompt=re.escape(PROMPT), env=None, folder="."):
        """Starts am-repl and waits for its prompt. `prompt` is a regular expression."""
        terminal = Terminal([BIN / "am-repl", target], self.folder.name, env, folder)
        self.addCleanup(os.close, terminal.fd)
        terminal.expect(prompt)
        return terminal

    def run_command(self, terminal, text, pattern):
        """Types a line. Its output must match the pattern, and the prompt must follow."""
        terminal.type(text + "\r")
        found = terminal.expect(pattern)
        terminal.expect(re.escape(PROMPT))
        return found

    def end(self, terminal):
        terminal.type("\x04")  # Ctrl-D
        self.assertEqual(terminal.wait(), 0)
