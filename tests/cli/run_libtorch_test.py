"""The launcher has no libtorch and answers at once; a libtorch of another version than the build's is refused at
the start, not met as a crash later."""

import os
import re
import resource
import shutil
import subprocess
import unittest

from run_support import BIN, DATA, RunTest, plan_text


class AnotherLibtorch(RunTest):
    def start_tool(self, *command):
        preload = BIN.parent / "lib" / "another_libtorch.so"
        return subprocess.run(
            [BIN / command[0], *map(str, command[1:])],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.path,
            env={**os.environ, "LD_PRELOAD": str(preload)},
        )

    def test_is_refused_with_both_versions(self):
        plan = self.write_plan(plan_text(steps=1))
        for command in (("am-run", plan), ("am-run", plan, "--dry-run"), ("am-repl", DATA / "loop/model")):
            with self.subTest(command=command):
                result = self.start_tool(*command)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, r"libtorch 2\.10\.0 is loaded .*built for \d")
        self.assertFalse((self.path / "runs").exists())

    def test_is_told_by_version(self):
        for tool in ("am-run", "am-repl"):
            result = self.start_tool(tool, "--version")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("libtorch 2.10.0", result.stdout)
            self.assertIn("built for libtorch", result.stdout)


class WithoutLibtorch(RunTest):
    def test_the_launcher_loads_none(self):
        loaded = subprocess.run(["ldd", BIN / "am-run"], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(loaded, "torch|c10|automesh")

    def fastest_seconds(self, status, *arguments):
        """Of three calls, on the processor: other tests may have it meanwhile."""
        seconds = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            result = self.am_run(*arguments)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.assertEqual(result.returncode, status, result.stderr)
            seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        return min(seconds)

    def test_it_answers_in_50_milliseconds(self):
        refused = self.write_plan(plan_text(strategy="fsdp3"))
        for status, arguments in ((0, ["--version"]), (0, ["--help"]), (0, ["doctor", "--help"]), (1, [refused])):
            with self.subTest(arguments=arguments):
                self.assertLess(self.fastest_seconds(status, *arguments), 0.05)

    def test_version_is_the_rank_programs(self):
        own = self.am_run("--version").stdout
        rank = subprocess.run([BIN.parent / "libexec/automesh/am-run-rank", "--version"],
                              capture_output=True, text=True, check=True).stdout
        self.assertEqual(own, rank)
        self.assertRegex(own, r"^am-run \S+\nlibtorch \d+\.\d+\.\d+\nnccl")

    def test_a_missing_rank_program_is_named(self):
        (self.path / "bin").mkdir()
        moved = shutil.copy(BIN / "am-run", self.path / "bin")
        plan = self.write_plan(plan_text(steps=1))
        for more in ([], ["--dry-run"]):
            result = subprocess.run([moved, plan, *more], capture_output=True, text=True, cwd=self.path)
            self.assertEqual(result.returncode, 1, result.stderr)
            missing = re.escape(str(self.path / "libexec/automesh/am-run-rank"))
            self.assertRegex(result.stderr, f"the program of the ranks cannot be run: {missing}: No such file")
        self.assertFalse((self.path / "runs").exists())

    def test_an_installation_that_was_moved_runs(self):
        shutil.copytree(BIN.parent / "libexec", self.path / "libexec", symlinks=True)
        (self.path / "bin").mkdir()
        moved = shutil.copy(BIN / "am-run", self.path / "bin")
        plan = self.write_plan(plan_text(steps=1, mesh="world_size = 1"))
        result = subprocess.run([moved, plan], capture_output=True, text=True, cwd=self.path)
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
