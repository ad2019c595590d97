"""am-repl at a terminal: prompt, completion, history, Ctrl-C."""
# ctest: waits

import os
import re
import time
import unittest
from pathlib import Path

from cli_support import display_width
from repl_terminal import BIN, MODEL, PROMPT, Terminal, TerminalCase

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
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


class PromptTest(TerminalCase):
    def test_commands_errors_and_the_end(self):
        terminal = self.open()
        self.run_command(terminal, "show model.norm.weight", "float32")
        self.run_command(terminal, "shwo", re.escape("did you mean `show`?"))
        self.end(terminal)

    def test_quit(self):
        terminal = self.open()
        terminal.type("quit\r")
        self.assertEqual(terminal.wait(), 0)

    def test_what_is_longer_than_the_screen_goes_through_the_pager(self):
        terminal = self.open(env={"PAGER": "sed s/^/PAGED:/"})
        terminal.resize(12, 90)
        self.run_command(terminal, "ls", r"PAGED:model\.norm\.weight")
        self.assertNotIn("PAGED", self.run_command(terminal, "show model.norm.weight", "whole"))
        terminal.resize(200, 90)
        self.assertNotIn("PAGED", self.run_command(terminal, "ls", "21 parameters"))
        self.end(terminal)
        for pager in ("", "/no/such/pager"):  # without a working pager, the answer is printed directly
            terminal = self.open(env={"PAGER": pager})
            terminal.resize(12, 90)
            self.run_command(terminal, "ls", "21 parameters")
            self.end(terminal)

    def test_a_window_that_changes_is_followed(self):
        terminal = self.open(env={"PAGER": ""})
        widest = []
        for columns in (80, 130, 100):
            terminal.resize(50, columns)
            terminal.type("help\r")
            text = terminal.expect("`help COMMAND` explains a command")
            widest.append(max(len(line) for line in text.splitlines() if "help\r" not in line))
            self.assertLessEqual(widest[-1], columns)
            terminal.expect(re.escape(PROMPT))
        self.assertGreater(widest[1], 101)
        self.assertGreater(widest[2], 81)
        self.end(terminal)

    def drawn(self, terminal, command):
        """Returns the answer as the terminal receives it, with its escape sequences."""
        terminal.text = ""
        terminal.type(command + "\r")
        while not terminal.text.partition("\n")[2].endswith(PROMPT):
            self.assertTrue(terminal.read(20), terminal.text)
        return terminal.text.partition("\n")[2].removesuffix(PROMPT)

    def test_screens_fit_windows_of_all_sizes(self):
        for env in ({}, {"NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": "1"}):
            terminal = self.open(env={"PAGER": "", **env})
            for rows, columns in ((24, 80), (40, 100), (40, 120), (50, 200)):
                terminal.resize(rows, columns)
                for command in ("stats", "tree", "heat lm_head.weight", "plot"):
                    with self.subTest(env=env, columns=columns, command=command):
                        # A slow command draws its progress in place.
                        text = re.sub(r"\r[^\r\n]*\x1b\[K", "", self.drawn(terminal, command))
                        plain = COLOUR.sub("", text).replace("\r\n", "\n")
                        self.assertGreater(plain.count("\n"), 5)
                        self.assertNotRegex(plain, "[\\x00-\\x09\\x0b-\\x1f\\x7f]")
                        self.assertEqual([line for line in plain.split("\n") if display_width(line) > columns], [])
                        if env:
                            self.assertNotIn("\x1b", text)
                        elif command == "heat lm_head.weight":
                            self.assertIn("\x1b", text)
            self.end(terminal)

    def test_a_heat_map_is_as_high_as_the_window(self):
        terminal = self.open(env={"PAGER": ""})
        for rows in (24, 50):
            with self.subTest(rows=rows):
                terminal.resize(rows, 100)
                lines = self.drawn(terminal, "heat lm_head.weight").count("\n") + 1  # with the prompt
                self.assertLessEqual(lines, rows)
                self.assertGreater(lines, rows - 5)
        self.end(terminal)

    def test_tab_completes_commands_and_names(self):
        terminal = self.open()
        self.run_command(terminal, "sho\tmodel.no\t\t", r"\[32\], 32 elements")
        terminal.type("show model.\t")
        self.assertIn("model.embed_tokens.", terminal.expect(r"model\.norm\."))
        terminal.type("\x15quit\r")  # Ctrl-U clears the line
        self.assertEqual(terminal.wait(), 0)

    def test_a_hint_says_what_may_follow_and_goes_with_the_line(self):
        terminal = self.open()
        terminal.resize(24, 80)
        terminal.type("norms ")
        while "\x1b[0m" not in terminal.text:
            self.assertTrue(terminal.read(20), terminal.text)
        self.assertIn("\x1b[2m[NAMES] [--by parameter|layer]\x1b[0m ", terminal.text)
        terminal.type("--by ")
        terminal.expect(r"--by +parameter\|layer ")
        terminal.type("la\t")
        terminal.expect("layer")
        terminal.type("\r")
        while "model" not in terminal.text:
            self.assertTrue(terminal.read(20), terminal.text)
        self.assertIn("\x1b[K\r\n", terminal.text.split("model")[0])  # no hint remains at the line's end
        terminal.expect(re.escape(PROMPT))
        self.end(terminal)

    def test_blanks_belong_to_what_is_searched(self):
        terminal = self.open()
        self.run_command(terminal, "show model.norm.weight", "float32")
        self.run_command(terminal, "ls lm_head", "1 parameter,")
        terminal.type("\x12show mod")  # Ctrl-R
        terminal.expect("bck:")
        terminal.type("\r")
        self.assertIn("float32", terminal.expect(re.escape(PROMPT)))
        self.end(terminal)

    def test_the_prompt_is_back_after_control_z_and_fg(self):
        shell = Terminal(["/bin/bash", "--norc", "--noprofile", "-i"], self.folder.name, {"PS1": "shell> "})
        self.addCleanup(os.close, shell.fd)
        shell.expect("shell> ")
        shell.type(f"{BIN}/am-repl {MODEL}\r")
        shell.expect(re.escape(PROMPT))
        shell.type("sho")
        shell.expect("sho")
        shell.type("\x1a")
        shell.expect("shell> ")
        shell.type("fg\r")
        shell.expect(re.escape(PROMPT) + "sho")
        shell.type("w model.no\t\t\r")  # the terminal reads single keys again: Tab completes
        shell.expect(r"\[32\], 32 elements")
        shell.expect(re.escape(PROMPT))
        shell.type("quit\r")
        shell.expect("shell> ")
        shell.type("exit\r")
        shell.wait()

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
        self.assertGreater(len(terminal.expect("(.|\n){200}")), -1)  # the text is printed while it is generated
        terminal.type("\x03")
        terminal.expect("interrupted")
        terminal.expect(re.escape(PROMPT))
        self.run_command(terminal, "info", "model type +llama")
        self.end(terminal)

    def test_control_c_stops_a_command_on_all_ranks(self):
        plan = Path(self.folder.name) / "plan.toml"
        plan.write_text(PLAN)
        prompt = "llama plan.toml [dp_shard 2]> "
        terminal = self.open(plan, re.escape(prompt))
        terminal.type("unshard lm_head\r")
        terminal.expect(re.escape(prompt))
        terminal.type("generate AB --tokens 1000000\r")
        terminal.expect("1000000")
        time.sleep(0.5)
        terminal.type("\x03")
        terminal.expect("interrupted")
        terminal.expect(re.escape(prompt))
        terminal.type("memory\r")
        self.assertRegex(terminal.expect(re.escape(prompt)), r"6\.06")  # lm_head only, in bfloat16
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
        self.run_command(terminal, " ls norm", "5 parameters,|1 parameter,")  # a leading blank: not added to the history
        self.end(terminal)
        history = Path(self.folder.name) / "am" / "history"
        self.assertEqual(history.stat().st_mode & 0o777, 0o600)
        again = self.open()
        self.run_command(again, "\x1b[A", r"lm_head\.weight")  # arrow up
        self.end(again)

    def test_two_sessions_keep_each_others_history(self):
        first, second = self.open(), self.open()
        self.run_command(first, "ls lm_head", "1 parameter,")
        self.run_command(second, "ls model.norm", "1 parameter,")
        self.run_command(first, "mesh", "1 rank")
        self.end(first)
        self.end(second)
        text = (Path(self.folder.name) / "am" / "history").read_text()
        for command in ("ls\\040lm_head", "ls\\040model.norm", "mesh"):
            self.assertIn(command, text)

    def test_a_backslash_goes_on_in_the_next_line(self):
        terminal = self.open()
        terminal.type("show \\\r")
        terminal.expect(re.escape("...> "))
        self.run_command(terminal, "model.norm.weight", r"\[32\], 32 elements")
        terminal.type("exit\r")
        self.assertEqual(terminal.wait(), 0)


if __name__ == "__main__":
    unittest.main()
