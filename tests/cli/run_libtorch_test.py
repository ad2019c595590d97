"""A libtorch of another version than the build's is refused at the start, not met as a crash later."""

import os
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


if __name__ == "__main__":
    unittest.main()
