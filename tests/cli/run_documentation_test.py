"""Completions and manual pages of am-run and am-repl. See also plan_documentation_test.py."""

import re
import shutil
import subprocess
import unittest

from cli_support import PlanCase, SOURCE, run_tool
from shell_support import SHELLS, TOOLS, hold_completions, hold_page

COMMANDS = ["init", "doctor", "files", "prepare", "show-batch", "ls", "compare", "completions", "man"]
WEIGHTS = SOURCE / "tests" / "data" / "hf" / "llama-sharded"


class DocumentationTest(PlanCase):
    def test_each_shell_completes(self):
        self.plan("")
        self.write("runs/plan/checkpoints/step-30/checkpoint.json", "{}")
        (self.folder / "weights").symlink_to(WEIGHTS)
        hold_completions(self, ["am-run", "am-repl"], [
            ("am-run --fa", "ult"),
            ("am-run pl", "an.toml"),
            ("am-run show", "-batch"),
            ("am-run plan.toml --fault tp_input", "_sum"),
            ("am-run plan.toml --set mesh.t", "p_size="),
            ("am-run plan.toml --resume au", "to"),
            ("am-run plan.toml --resume runs/plan/checkpoints/", "step-30/"),
            ("am-run --exec pl", "an.toml"),
            ("am-run doctor pl", "an.toml"),
            ("am-run doctor plan.toml --node-r", "ank"),
            ("am-run doctor --fa", ""),  # an option of am-run alone
            ("am-run files plan.toml --run-dir=ru", "ns/"),
            ("am-run prepare plan.toml --set data.shuf", "fle="),
            ("am-run show-batch --ro", "ws"),
            ("am-run ls ru", "ns/"),
            ("am-run man pre", "pare"),
            ("am-repl runs/", "plan/"),
            ("am-repl runs/p", "lan/"),
            ("am-repl runs/plan/checkpoints/", "step-30/"),
            ("am-repl runs/plan runs/p", "lan/"),
            ("am-repl plan.toml --keep", "-going"),
            ("am-repl plan.toml --set mesh.t", "p_size="),
            ("am-repl weights -c unsh", "ard"),
            ("am-repl plan.toml -c 'stats model.em", "bed_tokens."),
            ("am-repl weights -c 'stats model.em", "bed_tokens.")])

    def test_runs_and_checkpoints_are_proposed(self):
        self.write("runs/plan/checkpoints/step-30/checkpoint.json", "{}")

        def proposed(tool, *words):
            answer = run_tool(tool, "--complete", *words, cwd=self.folder).out
            return [line.split("\t")[0] for line in answer.splitlines()]

        step = "runs/plan/checkpoints/step-30"
        self.assertEqual(proposed("am-run", "plan.toml", "--resume", ""), ["files", "auto", "none", step])
        self.assertEqual(proposed("am-run", "other.toml", "--resume", ""), ["files", "auto", "none"])
        self.assertEqual(proposed("am-repl", ""), ["files", "runs/plan"])

    def test_the_shells_read_them(self):
        for tool in ("am-run", "am-repl"):
            for shell in SHELLS:
                script = self.write(f"{tool}.{shell}", run_tool(tool, *TOOLS[tool], shell).out)
                self.assertIn(f"# Completions of {tool} for {shell}.", script.read_text())
                done = subprocess.run([shell, "-n", script], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""), (tool, shell))
            self.assertEqual(run_tool(tool, *TOOLS[tool], "tcsh").status, 2)

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_pages(self):
        self.assertEqual(run_tool("am-run", "man", "-o", self.folder).status, 0)
        pages = sorted(path.name for path in self.folder.glob("*.1"))
        self.assertEqual(pages, sorted(["am-run.1", *(f"am-run-{command}.1" for command in COMMANDS)]))
        for command in COMMANDS:
            text = (self.folder / f"am-run-{command}.1").read_text()
            self.assertEqual(text, run_tool("am-run", "man", command).out)
            names = re.findall(r"^  (?:-\w,)?(--[\w-]+)", run_tool("am-run", command, "--help").out, re.MULTILINE)
            self.assertTrue(names, command)
            for name in names:
                self.assertIn(f"\\fB{name}\\fR".replace("-", r"\-"), text)
        self.write("am-repl.1", run_tool("am-repl", "--man").out)
        self.assertIn("\n3: a check, for example", (self.folder / "am-repl.1").read_text())
        for path in self.folder.glob("*.1"):
            hold_page(self, path)
            self.assertIn("\n.SH EXAMPLES\n", path.read_text())
        self.assertEqual(run_tool("am-run", "man", "women").status, 2)
        self.assertEqual(run_tool("am-run", "man", "-o", self.folder).status, 2)  # the pages exist


if __name__ == "__main__":
    unittest.main()
