"""am-run and am-repl of a build without libtorch: commands that need no libtorch work, and others say what is missing."""

import json
import subprocess
import unittest

from run_support import BIN, DATA, RunTest, plan_text

MISSING = "am-run-rank is not installed: this installation has only the tools that need no libtorch"
HELP = "build automesh with libtorch: scripts/setup && scripts/build"
CHECKPOINT = DATA / "dcp" / "fsdp4"


class WithoutTorch(RunTest):
    def tool(self, name, *arguments, status=0, stdin=""):
        ended = subprocess.run([BIN / name, *map(str, arguments)], cwd=self.path, text=True, capture_output=True, timeout=60,
                               input=stdin)
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        return ended

    def plan(self):
        return self.write_plan(plan_text().replace('name = "fsdp2"', 'name = "fsdp2"\nbackend = "gloo"'))

    def test_versions(self):
        for name in ("am-run", "am-repl"):
            self.assertRegex(self.tool(name, "--version").stdout, rf"^{name} [\d.]+.*\nlibtorch: not installed\n")

    def test_a_plan_is_not_run(self):
        plan = self.plan()
        for options in ((), ("--dry-run",), ("--verify-layout",)):
            with self.subTest(options=options):
                ended = self.tool("am-run", plan, *options, status=1)
                self.assertEqual(ended.stdout, "")
                self.assertIn(MISSING, ended.stderr)
                self.assertIn(HELP, ended.stderr)
                self.assertEqual(sorted(path.name for path in self.path.iterdir()), ["plan.toml"])

    def test_any_program_is_run(self):
        self.tool("am-run", "--nproc", 2, "--run-dir", "run", "--exec", "/bin/sh", "-c", "echo rank $RANK")
        logs = "".join(path.read_text() for path in (self.path / "run" / "logs").rglob("*") if path.is_file())
        for rank in (0, 1):
            self.assertIn(f"rank {rank}", logs)
        self.assertIn("run", self.tool("am-run", "ls", ".").stdout)

    def test_the_doctor_examines_what_it_can(self):
        said = json.loads(self.tool("am-run", "doctor", self.plan(), "--json", status=1).stdout)
        checks = {check["name"]: check for check in said["checks"]}
        self.assertEqual((checks["libtorch"]["status"], checks["libtorch"]["message"]), ("error", MISSING))
        self.assertIn(HELP, checks["libtorch"]["help"])
        self.assertEqual(checks["data"]["status"], "ok", checks["data"])
        self.assertIn("4 992 tokens", checks["data"]["message"])
        self.assertEqual({checks[name]["status"] for name in ("checkpoint", "weights")}, {"skipped"})
        for name in ("world size", "memory", "disk"):
            self.assertEqual(checks[name]["status"], "ok", checks[name])

    def test_the_doctor_finds_broken_data(self):
        said = json.loads(self.tool("am-run", "doctor", self.plan(), "--json", "--set", "train.seq_len=30000", status=1).stdout)
        self.assertEqual([check["status"] for check in said["checks"] if check["name"] == "data"], ["error"])

    def test_files_and_batches(self):
        plan = self.plan()
        self.assertIn("#SBATCH", self.tool("am-run", "files", plan, "--slurm").stdout)
        self.assertIn("row 0: sample 0", self.tool("am-run", "show-batch", plan).stdout)

    def test_names_of_a_checkpoint(self):
        listed = self.tool("am-repl", CHECKPOINT, "-c", "ls").stdout
        self.assertIn("float32", listed)
        self.assertEqual(self.tool("am-repl", CHECKPOINT, stdin="ls\n").stdout, listed)
        for command in ("stats", "print norm.weight", "diff " + str(CHECKPOINT)):
            with self.subTest(command=command):
                ended = self.tool("am-repl", CHECKPOINT, "-c", f"ls; {command}", status=1)
                self.assertEqual(ended.stdout, listed)
                self.assertIn("am-repl-values is not installed", ended.stderr)
                self.assertIn(HELP, ended.stderr)

    def test_a_plan_is_not_opened(self):
        ended = self.tool("am-repl", self.plan(), "-c", "ls", status=1)
        self.assertIn("am-repl-values is not installed", ended.stderr)


if __name__ == "__main__":
    unittest.main()
