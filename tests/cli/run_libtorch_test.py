"""am-run's launcher and am-repl do not load libtorch, so they answer immediately. A libtorch of
another version than the one they were built for is refused at the start, because it would crash
later."""

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
    def test_the_tools_load_none(self):
        for tool in ("am-run", "am-repl"):
            lines = subprocess.run(["ldd", BIN / tool], capture_output=True, text=True, check=True).stdout.splitlines()
            loaded = [line.split()[0] for line in lines]  # without load addresses, in which "c10" can occur
            self.assertIn("libc.so.6", loaded)
            self.assertNotRegex(" ".join(loaded), "torch|c10|automesh", tool)

    def fastest_seconds(self, status, *command):
        """Runs a command three times and returns its smallest processor time in seconds, because
        other tests may use the processor."""
        seconds = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            result = subprocess.run([BIN / command[0], *map(str, command[1:])], capture_output=True, text=True,
                                    timeout=60, cwd=self.path)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.assertEqual(result.returncode, status, result.stderr)
            seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        return min(seconds)

    def test_it_answers_in_50_milliseconds(self):
        refused = self.write_plan(plan_text(strategy="fsdp3"))
        model = DATA / "loop/model"
        for status, *command in (
            (0, "am-run", "--version"), (0, "am-run", "--help"), (0, "am-run", "doctor", "--help"), (1, "am-run", refused),
            (0, "am-repl", "--version"), (0, "am-repl", "--help"), (0, "am-repl", model, "-c", "info; ls | sort bytes"),
            (1, "am-repl", model, "-c", "ls nothing"), (2, "am-repl", self.path / "nowhere", "-c", "ls"),
        ):
            with self.subTest(command=command):
                self.assertLess(self.fastest_seconds(status, *command), 0.05)

    def test_version_is_the_other_programs(self):
        for tool, other in (("am-run", "am-run-rank"), ("am-repl", "am-repl-values")):
            own, theirs = (subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
                           for program in (BIN / tool, BIN.parent / "libexec/automesh" / other))
            self.assertEqual(own, theirs)
            self.assertRegex(own, rf"^{tool} \S+\nlibtorch \d+\.\d+\.\d+\nnccl")

    def test_a_missing_program_is_named(self):
        (self.path / "bin").mkdir()
        for tool in ("am-run", "am-repl"):
            shutil.copy(BIN / tool, self.path / "bin")
        plan = self.write_plan(plan_text(steps=1))
        for tool, missing, *more in (
            ("am-run", "am-run-rank"), ("am-run", "am-run-rank", "--dry-run"), ("am-repl", "am-repl-values"),
        ):
            result = subprocess.run([self.path / "bin" / tool, plan, *more], capture_output=True, text=True, cwd=self.path,
                                    stdin=subprocess.DEVNULL)
            self.assertEqual(result.returncode, 1, result.stderr)
            missing = re.escape(str(self.path / "libexec/automesh" / missing))
            self.assertRegex(result.stderr, f"cannot run {missing}: No such file")
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
