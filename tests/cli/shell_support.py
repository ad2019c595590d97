"""Checks completions as a user of bash, zsh or fish sees them, and manual pages."""

import shutil
import subprocess

from cli_support import BIN, ENVIRONMENT, run_tool
from repl_terminal import Terminal

SHELLS = [name for name in ("bash", "zsh", "fish") if shutil.which(name)]
TOOLS = {"am-plan": ("completions",), "am-run": ("completions",), "am-repl": ("--completions",)}

# Start files of the shells. They bind Ctrl-T to a function that prints the current line between "<"
# and ">".
BASH = r"""PS1='$ '
bind -x '"\C-t": printf "\n<%s>\n" "$READLINE_LINE"'
"""
ZSH = r"""PS1='$ '
autoload -U compinit
compinit -u -D
line() { print -r -- $'\n'"<$BUFFER>" }
zle -N line
bindkey '^T' line
"""


class Shell:
    """A shell in which the tools' completions are loaded. If `installed`, zsh loads them from a
    folder in $fpath."""

    def __init__(self, name, folder, tools, installed=False):
        self.name = name
        self.folder = folder
        self.environment = {**ENVIRONMENT, "PATH": f"{BIN}:{ENVIRONMENT['PATH']}", "HOME": str(folder)}
        self.scripts = [folder / f"{tool}.{name}" for tool in tools]
        for tool, script in zip(tools, self.scripts):
            script.write_text(run_tool(tool, *TOOLS[tool], name).out)
        if name == "fish":
            return
        start = {"bash": BASH, "zsh": ZSH}[name] + "".join(f"source {script}\n" for script in self.scripts)
        if installed:
            for tool, script in zip(tools, self.scripts):
                script.rename(folder / f"_{tool}")
            start = f"fpath=({folder} $fpath)\n{ZSH}"
        file = folder / {"bash": "bashrc", "zsh": ".zshrc"}[name]
        file.write_text(start)
        arguments = {"bash": ["--noprofile", "--rcfile", file, "-i"], "zsh": ["-d", "-i"]}[name]
        self.terminal = Terminal([shutil.which(name), *arguments], folder, env=self.environment, folder=folder)

    def complete(self, line):
        """Returns the line after the Tab key, without a space or quote at its end."""
        if self.name != "fish":
            self.terminal.expect(r"\$ ")
            self.terminal.type(f"{line}\t\x14")
            self.terminal.expect("\n<")
            text = self.terminal.expect(">\r?\n")
            self.terminal.type("\x15\r")
            return text.rstrip(" '")
        sources = "".join(f"source {script}; " for script in self.scripts)
        done = subprocess.run(["fish", "-N", "-c", f"{sources}complete -C $argv[1]", line], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, timeout=60)
        assert done.stderr == "", done.stderr
        words = [each.split("\t")[0] for each in done.stdout.splitlines()]
        start = (line.find("'") if "'" in line else line.rfind(" ")) + 1
        return line[:start] + words[0] if len(words) == 1 else line

    def close(self):
        if self.name != "fish":
            self.terminal.expect(r"\$ ")
            self.terminal.type("exit\r")
            self.terminal.wait()


def hold_completions(case, tools, expected):
    """Checks completions in each installed shell. `expected`: pairs of a line and the text that
    Tab adds to it."""
    if not SHELLS:
        case.skipTest("no shell whose completions are generated")
    for name in SHELLS:
        shell = Shell(name, case.folder, tools)
        for line, end in expected:
            with case.subTest(name, line=line):
                case.assertEqual(shell.complete(line), line + end)
        shell.close()


def hold_page(case, page):
    """Checks that groff formats a manual page without warnings."""
    done = subprocess.run(["groff", "-man", "-Tascii", "-ww", page], capture_output=True, text=True, timeout=60)
    case.assertEqual((done.returncode, done.stderr), (0, ""), page.name)
