"""am-plan completions and am-plan man agree with --help."""

import re
import shutil
import subprocess
import unittest

from cli_support import ENVIRONMENT, PlanCase


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
            done = subprocess.run(["bash", "--norc", "-c", body], capture_output=True, text=True,
                                  cwd=self.folder, env=ENVIRONMENT, timeout=60)
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

    def test_every_command_is_in_every_script(self):
        for shell in ("bash", "zsh", "fish"):
            text = self.am_plan("completions", shell).out
            for command in commands(self):
                self.assertRegex(text, rf"(?m)\b{command}\b", shell)

    def test_the_shells_read_them(self):
        for shell in ("bash", "zsh", "fish"):
            if shutil.which(shell) is None:
                continue
            done = subprocess.run([shell, "-n", self.script(shell)], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), shell)

    def test_an_unknown_shell(self):
        self.am_plan("completions", "tcsh", status=2)


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

    def test_troff_has_nothing_to_complain_about(self):
        groff = shutil.which("groff")
        if groff is None:
            self.skipTest("no groff")
        self.am_plan("man", "-o", self.folder)
        for path in self.folder.glob("*.1"):
            done = subprocess.run([groff, "-man", "-Tascii", "-ww", path], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), path.name)


if __name__ == "__main__":
    unittest.main()
