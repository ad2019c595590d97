"""am-repl at a terminal while a command runs long or a rank does not answer. am-repl names a rank
that does not answer, and Ctrl-C ends the command."""
# ctest: waits

import json
import os
import re
import signal
import struct
import time
import unittest
from pathlib import Path

from repl_plan_test import children_of, is_alive, plan_text
from repl_terminal import TerminalCase

WAITING = r"waiting for rank 1 \(stopped, pid (\d+)\)"


class StuckTest(TerminalCase):
    def session(self):
        plan = Path(self.folder.name) / "plan.toml"
        plan.write_text(plan_text())
        terminal = self.open(plan, re.escape("llama plan.toml [dp_shard 2]> "))
        ranks = children_of(terminal.pid)
        self.assertEqual(len(ranks), 2)
        return terminal, ranks

    def prompt(self, terminal, timeout=20):
        return terminal.expect(re.escape("llama plan.toml [dp_shard 2]> "), timeout)

    def give_up_stats(self, terminal, rank):
        """Stops the rank's process, starts a command that waits for the rank, and cancels the
        command."""
        os.kill(rank, signal.SIGSTOP)
        terminal.type("stats\r")
        terminal.expect(WAITING, timeout=10)
        terminal.type("\x03")
        self.prompt(terminal)

    def test_a_stopped_rank_is_named_and_the_command_given_up(self):
        terminal, ranks = self.session()
        os.kill(ranks[1], signal.SIGSTOP)
        began = time.time()
        terminal.type("stats\r")
        terminal.expect(WAITING, timeout=10)
        self.assertLess(time.time() - began, 6)
        terminal.type("\x03")
        terminal.expect(r"given up: rank 1 \(stopped, pid \d+\) has not finished `stats`", timeout=5)
        self.prompt(terminal)
        # Commands that need no rank are still answered.
        terminal.type("help stats\r")
        terminal.expect("min, max, mean, std, norm", timeout=2)
        self.prompt(terminal)
        # When the rank's process continues, the session works again.
        os.kill(ranks[1], signal.SIGCONT)
        terminal.type("mesh\r")
        terminal.expect("2 ranks")
        self.prompt(terminal)
        self.end(terminal)

    def test_a_dead_rank_is_named_at_the_prompt(self):
        terminal, ranks = self.session()
        os.kill(ranks[1], signal.SIGKILL)
        terminal.expect(r"rank 1 has ended: signal SIGKILL \(Killed\)", timeout=5)
        terminal.type("help stats\r")  # needs no rank, so it is still answered
        terminal.expect("min, max, mean, std, norm", timeout=5)
        self.prompt(terminal)
        terminal.type("stats\r")
        terminal.expect("rank 1 on node 0 failed: signal SIGKILL", timeout=10)
        self.assertEqual(terminal.wait(), 1)
        self.assertFalse(is_alive(ranks[0]))

    def test_a_second_interrupt_ends_the_session(self):
        terminal, ranks = self.session()
        self.give_up_stats(terminal, ranks[1])
        terminal.type("mesh\r")
        terminal.expect(WAITING, timeout=10)
        terminal.type("\x03")
        terminal.expect(r"ended while `stats` waited for rank 1 \(stopped, pid \d+\)", timeout=10)
        self.assertEqual(terminal.wait(), 1)
        self.assertFalse(any(is_alive(rank) for rank in ranks))

    def test_a_session_with_a_stopped_rank_can_be_left(self):
        terminal, ranks = self.session()
        self.give_up_stats(terminal, ranks[1])
        began = time.time()
        terminal.type("quit\r")
        self.assertEqual(terminal.wait(), 0)
        self.assertLess(time.time() - began, 5)
        self.assertFalse(any(is_alive(rank) for rank in ranks))

    def test_a_rank_that_died_at_the_prompt_is_the_one_that_is_named(self):
        terminal, ranks = self.session()
        os.kill(ranks[1], signal.SIGKILL)
        terminal.type("stats\r")
        said = terminal.expect("rank 1 on node 0 failed: signal SIGKILL", timeout=10)
        self.assertNotIn("look at", said + terminal.text)
        self.assertEqual(terminal.wait(), 1)
        self.assertNotIn("look at", terminal.text)


class LongWorkTest(TerminalCase):
    """Commands on two billion zeros in a sparse file would each need many seconds. Ctrl-C ends
    them."""

    def session(self):
        folder = Path(self.folder.name) / "large"
        folder.mkdir()
        header, end = {}, 0
        for i in range(8):
            header[f"w{i}"] = {"dtype": "F32", "shape": [16384, 16384], "data_offsets": [end, end + (1 << 30)]}
            end += 1 << 30
        text = json.dumps(header).encode()
        with open(folder / "model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + end)
        (folder / "config.json").write_text("{}")
        return self.open(folder, "weights large> ")

    def interrupt(self, command, after=0.5):
        terminal = self.session()
        terminal.type(command + "\r")
        time.sleep(after)
        began = time.time()
        terminal.type("\x03")
        terminal.expect("error: interrupted", timeout=20)  # the complete command takes longer
        self.assertLess(time.time() - began, 15)
        terminal.expect("weights large> ")
        self.end(terminal)

    def test_stats(self):
        self.interrupt("stats")

    def test_how_far_it_is_can_be_seen(self):
        terminal = self.session()
        terminal.resize(40, 90)
        terminal.type("stats\r")
        terminal.expect(r"stats  \S* +\d+%  \S+ [GM]iB of 8\.00 GiB, \S+ [GM]iB/s")
        terminal.type("\x03")
        terminal.expect("error: interrupted")
        terminal.expect("weights large> ")
        self.end(terminal)

    def test_hist(self):
        self.interrupt("hist w0 --bins 1000")

    def test_unshard(self):
        self.interrupt("unshard all --force", after=0.2)

    def test_export_leaves_nothing(self):
        self.interrupt(f"export {self.folder.name}/out")
        left = {entry.name for entry in Path(self.folder.name).iterdir()}
        self.assertEqual(left - {"am"}, {"large"})


if __name__ == "__main__":
    unittest.main()
