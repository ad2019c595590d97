"""checkpoint.verify_replicas compares the replicas of parameters and optimizer states during the
job."""

import unittest

from run_support import RunTest, plan_text

VERIFY = "[checkpoint]\nverify_replicas = 3\nlast = false\n"


class Replicas(RunTest):
    def test_a_wrong_bit_names_the_rank_and_the_tensor(self):
        for mesh, strategy in (("world_size = 2", "ddp"), ("world_size = 4\ndp_replicate_size = 2", "fsdp2"),
                               ("world_size = 2\ntp_size = 2", "fsdp2")):
            with self.subTest(mesh):
                plan = self.write_plan(plan_text(VERIFY, mesh=mesh, strategy=strategy, steps=5))
                result = self.am_run(plan, "--run-dir", "run", "--set", 'model.weights="none"', "--set",
                                     'checkpoint.resume="none"', "--fault", "replica_bit")
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, r"after step 3 the replicas of \S+\.weight differ, on ranks 0")

    def test_equal_replicas_pass(self):
        losses = {}
        for mesh, strategy in (("world_size = 2", "ddp"), ("world_size = 4\ndp_replicate_size = 2", "fsdp2"),
                               ("world_size = 2\ntp_size = 2", "fsdp2"), ("world_size = 2\npp_size = 2", "fsdp2")):
            with self.subTest(mesh):
                for more in (VERIFY, "[checkpoint]\nlast = false\n"):
                    plan = self.write_plan(plan_text(more, mesh=mesh, strategy=strategy, steps=6))
                    self.train(plan, "run", "--set", 'checkpoint.resume="none"')
                    losses[more] = [line["loss"] for line in self.metrics("run")]
                self.assertEqual(*losses.values())


if __name__ == "__main__":
    unittest.main()
