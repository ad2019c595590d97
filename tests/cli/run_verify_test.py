"""am-run --verify-layout trains a small model under the plan's layout and on one rank, and
compares the values."""

import unittest

from run_support import RunTest, plan_text


class VerifyLayout(RunTest):
    def verify(self, plan, *arguments, status=0):
        return self.json_of(plan, "--verify-layout", *arguments, status=status)

    def test_an_honest_layout(self):
        plan = self.write_plan(plan_text(mesh="world_size = 16\ntp_size = 4"))
        answer = self.verify(plan)
        self.assertTrue(answer["ok"])
        self.assertIsNone(answer["parting"])
        self.assertEqual(answer["steps"], 3)
        self.assertLess(answer["largest_difference"], 1e-11)
        self.assertEqual(answer["proxy"]["mesh"]["tp"], 2)
        self.assertEqual(answer["proxy"]["changes"]["mesh.tp_size"], [4, 2])
        self.assertFalse(list(self.path.glob("runs*")))

    def test_a_mistake_is_seen(self):
        plan = self.write_plan(plan_text(mesh="world_size = 4\ntp_size = 2"))
        answer = self.verify(plan, "--fault", "tp_input_sum", "--steps", "1", status=1)
        self.assertFalse(answer["ok"])
        parting = answer["parting"]
        self.assertEqual((parting["step"], parting["what"]), (1, "gradient"))
        self.assertGreater(parting["difference"], 1e-3)
        self.assertIn("model.", parting["name"])
        text = self.am_run(plan, "--verify-layout", "--fault", "tp_input_sum")
        self.assertEqual(text.returncode, 1)
        self.assertIn("differs in step 1: the gradient of " + parting["name"], text.stdout)

    def test_what_is_wrong_is_said(self):
        plan = self.write_plan(plan_text(mesh="world_size = 4\ntp_size = 2"))
        result = self.am_run(plan, "--verify-layout", "--fault", "no_such")
        self.assertEqual(result.returncode, 2)
        self.assertIn("tp_input_sum", result.stderr)
        self.assertEqual(self.am_run(plan, "--dry-run", "--fault", "tp_input_sum").returncode, 2)
        self.assertEqual(self.am_run("--fault", "tp_input_sum", "--exec", "true").returncode, 2)
        refused = self.am_run(self.write_plan(plan_text(mesh="world_size = 4\ntp_size = 3")),
                              "--verify-layout")
        self.assertEqual(refused.returncode, 1)


if __name__ == "__main__":
    unittest.main()
