"""A plugin that a plan names is loaded only if the command line or the environment allows it,
and never from the plan in a run folder."""

import json
import os
import subprocess
import unittest

from run_support import BIN, RunTest, plan_text

LIBRARY = BIN.parent / "lib" / "leaves_a_file.so"
PLUGIN = f'tp_plan = "{LIBRARY}:feed_forward"'


class PluginTest(RunTest):
    def setUp(self):
        super().setUp()
        self.mark = self.path / "loaded"
        text = plan_text(mesh="world_size = 2\ntp_size = 2", steps=1)
        self.plan = self.write_plan(text.replace("[train]", f"{PLUGIN}\n[train]"))

    def tool(self, name, *arguments, **variables):
        self.mark.unlink(missing_ok=True)
        return subprocess.run(
            [BIN / name, *map(str, arguments)], capture_output=True, text=True, cwd=self.path,
            stdin=subprocess.DEVNULL, timeout=300,
            env={**os.environ, "AM_TEST_MARK": str(self.mark), **variables})

    def refused(self, result):
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("error[tp.plugin]", result.stdout + result.stderr)
        self.assertIn("plan.toml:", result.stdout + result.stderr)
        self.assertIn("--allow-plugins", result.stdout + result.stderr)
        self.assertFalse(self.mark.exists())

    def test_each_tool_refuses_a_plan_with_a_plugin(self):
        self.refused(self.tool("am-plan", "check", self.plan))
        self.refused(self.tool("am-plan", "memory", self.plan, AM_ALLOW_PLUGINS="0"))
        self.refused(self.tool("am-run", self.plan))
        self.refused(self.tool("am-run", "doctor", self.plan))
        self.refused(self.tool("am-repl", self.plan, "-c", "info"))

    def test_am_plan_loads_it_where_that_is_allowed(self):
        for arguments, variables in ((["--allow-plugins"], {}), ([], {"AM_ALLOW_PLUGINS": "1"})):
            result = self.tool("am-plan", "tp", self.plan, *arguments, "--json", **variables)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(len(json.loads(result.stdout)["rules"]), 2)
            self.assertTrue(self.mark.exists())

    def test_the_ranks_of_am_repl_load_it(self):
        result = self.tool("am-repl", self.plan, "--allow-plugins", "--json", "-c",
                           "show model.layers.0.mlp.up_proj.weight")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["results"][0]["placements"], {"tp": "Shard(0)"})

    def test_a_job_is_allowed_and_its_run_folder_is_data(self):
        run = self.path / "run"
        trained = self.tool("am-run", self.plan, "--allow-plugins", "--run-dir", run)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertIn("leaves_a_file.so:feed_forward", (run / "plan.toml").read_text())
        for target in (run, run / "checkpoints" / "step-1"):
            result = self.tool("am-repl", target, "--allow-plugins", "--json", "-c", "info")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("loaded only if you allow it", json.loads(result.stdout)["results"][0]["note"])
            self.assertFalse(self.mark.exists())


if __name__ == "__main__":
    unittest.main()
