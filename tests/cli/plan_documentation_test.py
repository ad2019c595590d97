"""am-plan completions and am-plan man agree with --help. See also run_documentation_test.py."""

import re
import shutil
import subprocess
import unittest

from cli_support import BIN, ENVIRONMENT, PlanCase
from shell_support import SHELLS, Shell, hold_completions, hold_page


def commands(case):
    """Returns the names of the commands, from --help."""
    text = case.am_plan("--help").out.split("Subcommands:")[1].split("Examples:")[0]
    return re.findall(r"^  (\S+)", text, re.MULTILINE)


class Completions(PlanCase):
    def script(self, shell):
        return self.write(f"am-plan.{shell}", self.am_plan("completions", shell).out)

    @unittest.skipUnless(shutil.which("bash"), "no bash")
    def test_bash_completes(self):
        plan = self.plan("")
        script = self.script("bash")

        def complete(*words):
            line = " ".join(f"'{word}'" for word in words)
            body = (f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
                    "_am_plan; printf '%s\\n' \"${COMPREPLY[@]}\"")
            done = subprocess.run(["bash", "--norc", "-c", body], capture_output=True, text=True, cwd=self.folder,
                                  env={**ENVIRONMENT, "PATH": f"{BIN}:{ENVIRONMENT['PATH']}"}, timeout=60)
            self.assertEqual(done.stderr, "")
            return done.stdout.split()

        self.assertEqual(sorted(complete("am-plan", "")), sorted(commands(self)))
        self.assertEqual(complete("am-plan", "che"), ["check"])
        self.assertEqual(complete("am-plan", "export", "x.toml", "--to", "nemo"),
                         ["nemo-automodel"])
        self.assertIn("--world-size", complete("am-plan", "check", "--"))
        self.assertEqual(complete("am-plan", "check", "plan.t"), [plan.name])
        self.assertEqual(complete("am-plan", "completions", "f"), ["fish"])
        self.assertEqual(complete("am-plan", "--color", "al"), ["always"])

    def test_every_command_is_completed(self):
        words = [line.split("\t")[0] for line in self.am_plan("--complete", "").out.splitlines()]
        self.assertEqual(words, ["words", *commands(self)])

    def test_each_shell_completes(self):
        self.plan("")
        hold_completions(self, ["am-plan"], [
            ("am-plan memo", "ry"),
            ("am-plan check pl", "an.toml"),
            ("am-plan --color never check plan.toml --world", "-size"),
            ("am-plan --color=al", "ways"),
            ("am-plan check plan.toml --set mesh.t", "p_size="),
            ("am-plan check plan.toml --set=data.shuf", "fle="),
            ("am-plan check --set strategy.name=megatron_", "fsdp"),
            ("am-plan check --set data.shuffle=f", "alse"),
            ("am-plan check --set cluster.gpu=gb3", "00"),
            ("am-plan explain tp.k", "v_heads"),
            ("am-plan search --gpu gb3", "00"),
            ("am-plan search --implementation torcht", "itan"),
            ("am-plan search --model gpt-o", "ss-20b"),
            ("am-plan shards plan.toml --param model.em", "bed_tokens."),
            ("am-plan shards absent.toml --param model.em", ""),
            ("am-plan man expl", "ain")])

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh_loads_an_installed_file(self):
        shell = Shell("zsh", self.folder, ["am-plan"], installed=True)
        self.assertEqual(shell.complete("am-plan memo"), "am-plan memory")
        shell.close()

    def test_the_shells_read_them(self):
        for shell in SHELLS:
            done = subprocess.run([shell, "-n", self.script(shell)], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), shell)

    def test_an_unknown_shell(self):
        self.am_plan("completions", "tcsh", status=2)


class Help(PlanCase):
    def test_every_command_that_answers_takes_json(self):
        for command in commands(self):
            with self.subTest(command):
                takes = "--json" in self.am_plan(command, "--help").out
                self.assertEqual(takes, command not in ("lsp", "man", "completions"))


class Manual(PlanCase):
    def test_pages_of_all_commands(self):
        self.am_plan("man", "-o", self.folder)
        pages = sorted(path.name for path in self.folder.glob("*.1"))
        self.assertEqual(pages, sorted(["am-plan.1"] + [f"am-plan-{c}.1" for c in commands(self)]))
        page = (self.folder / "am-plan-export.1").read_text()
        self.assertTrue(page.startswith('.TH AM\\-PLAN\\-EXPORT 1 '), page)
        self.assertIn("\\fB\\-\\-to\\fR \\fIFRAMEWORK\\fR", page)
        self.assertEqual((self.folder / "am-plan.1").read_text(), self.am_plan("man").out)

    def test_one_page(self):
        self.am_plan("man", "-o", self.folder)
        for command in commands(self):
            self.assertEqual((self.folder / f"am-plan-{command}.1").read_text(),
                             self.am_plan("man", command).out)
        self.am_plan("man", "women", status=2)

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_troff_has_nothing_to_complain_about(self):
        self.am_plan("man", "-o", self.folder)
        for path in self.folder.glob("*.1"):
            hold_page(self, path)


if __name__ == "__main__":
    unittest.main()
