"""am-repl at a terminal: prompt, completion, history, Ctrl-C."""

import os
import pty
import re
import select
import signal
import tempfile
import time
import unittest
from pathlib import Path

BIN = Path(os.environ["AM_BIN_DIR"])
MODEL = Path(os.environ["AM_SOURCE_DIR"]) / "tests" / "data" / "hf" / "llama-sharded"
PROMPT = "llama llama-sharded> "
PLAN = f"""
[model]
path = "{MODEL}"
[mesh]
world_size = 2
[strategy]
name = "fsdp2"
[train]
seq_len = 16
"""


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, arguments, state):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", XDG_STATE_HOME=str(state), LC_ALL="C.UTF-8")
            os.environ.pop("NO_COLOR", None)
            os.execv(arguments[0], list(map(str, arguments)))
        self.text = ""

    def read(self, timeout):
        ready, _, _ = select.select([self.fd], [], [], timeout)
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other side has closed
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, timeout=20):
        """Waits for the pattern and drops everything up to its end; returns what stood before it."""
        deadline = time.time() + timeout
        while True:
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]", "", self.text)
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


class PromptTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="am-repl-test-")
        self.addCleanup(self.folder.cleanup)

    def open(self, target=MODEL, prompt=PROMPT):
        terminal = Terminal([BIN / "am-repl", target], self.folder.name)
        self.addCleanup(os.close, terminal.fd)
        terminal.expect(re.escape(prompt))
        return terminal

    def run_command(self, terminal, text, pattern):
        """Types a line; its output must hold the pattern, and then the prompt comes back."""
        terminal.type(text + "\r")
        found = terminal.expect(pattern)
        terminal.expect(re.escape(PROMPT))
        return found

    def end(self, terminal):
        terminal.type("\x04")  # Ctrl-D
        self.assertEqual(terminal.wait(), 0)

    def test_commands_errors_and_the_end(self):
        terminal = self.open()
        self.run_command(terminal, "show model.norm.weight", "float32")
        self.run_command(terminal, "shwo", re.escape("did you mean `show`?"))
        self.end(terminal)

    def test_quit(self):
        terminal = self.open()
        terminal.type("quit\r")
        self.assertEqual(terminal.wait(), 0)

    def test_tab_completes_commands_and_names(self):
        terminal = self.open()
        self.run_command(terminal, "sho\tmodel.no\t\t", r"\[32\], 32 elements")
        terminal.type("show model.\t")
        self.assertIn("model.embed_tokens.", terminal.expect(r"model\.norm\."))
        terminal.type("\x15quit\r")  # Ctrl-U empties the line
        self.assertEqual(terminal.wait(), 0)

    def test_control_c_cancels_the_line(self):
        terminal = self.open()
        terminal.type("show nothing")
        terminal.expect("nothing")
        terminal.type("\x03")
        terminal.expect(re.escape("^C"))
        terminal.expect(re.escape(PROMPT))
        self.run_command(terminal, "ls model.norm.weight", "1 parameter,")
        self.end(terminal)

    def test_control_c_stops_a_command(self):
        terminal = self.open()
        terminal.type("generate AB --tokens 1000000\r")
        terminal.expect("1000000")
        time.sleep(0.5)
        terminal.type("\x03")
        terminal.expect("interrupted")
        terminal.expect(re.escape(PROMPT))
        self.run_command(terminal, "info", "model type +llama")
        self.end(terminal)

    def test_control_c_stops_a_command_on_all_ranks(self):
        plan = Path(self.folder.name) / "plan.toml"
        plan.write_text(PLAN)
        prompt = "llama plan.toml [dp_shard 2]> "
        terminal = self.open(plan, prompt)
        terminal.type("unshard lm_head\r")
        terminal.expect(re.escape(prompt))
        terminal.type("generate AB --tokens 1000000\r")
        terminal.expect("1000000")
        time.sleep(0.5)
        terminal.type("\x03")
        terminal.expect("interrupted")
        terminal.expect(re.escape(prompt))
        terminal.type("memory\r")
        self.assertRegex(terminal.expect(re.escape(prompt)), r"6\.06")  # lm_head alone, in bfloat16
        self.end(terminal)

    def test_an_open_quote_goes_on(self):
        terminal = self.open()
        terminal.type("loss 'AB\r")
        terminal.expect(re.escape("...> "))
        self.run_command(terminal, "CD'", "5 tokens")
        self.end(terminal)

    def test_history_lasts(self):
        terminal = self.open()
        self.run_command(terminal, "ls lm_head", "1 parameter,")
        self.run_command(terminal, " ls norm", "5 parameters,|1 parameter,")  # a leading blank: not kept
        self.end(terminal)
        history = Path(self.folder.name) / "am" / "history"
        self.assertEqual(history.stat().st_mode & 0o777, 0o600)
        again = self.open()
        self.run_command(again, "\x1b[A", r"lm_head\.weight")  # the arrow up
        self.end(again)


if __name__ == "__main__":
    unittest.main()
