"""am-run --dry-run runs one rank's step without a job: no other rank is started, and no file is
written."""

import json
import subprocess
import unittest

from run_support import BIN, RunTest, plan_text


class DryRun(RunTest):
    def dry(self, plan, *arguments, status=0):
        return self.json_of(plan, "--dry-run", *arguments, status=status)

    def test_memory_and_collectives(self):
        plan = self.write_plan(plan_text(mesh="world_size = 4\ntp_size = 2"))
        answer = self.dry(plan, "--rank", "3")
        self.assertEqual((answer["rank"], answer["world_size"]), (3, 4))
        self.assertEqual(set(answer["components"]),
                         {"parameters", "gradients", "optimizer", "activations", "logits",
                          "unsharded", "communication", "other"})
        self.assertEqual(answer["host_bytes"], 0)
        self.assertEqual([each["phase"] for each in answer["phases"]],
                         ["forward", "backward", "optimizer"])
        live = [each["live_bytes"] for each in answer["phases"]]
        self.assertTrue(live[2] < live[0] <= answer["peak_bytes"])
        self.assertEqual(sum(answer["components"].values()), answer["peak_bytes"])
        self.assertEqual(answer["components"]["optimizer"], 2 * answer["components"]["parameters"])
        kinds = {(c["op"], c["group"]): c for c in answer["collectives"]}
        # Only one of the 5 units, the first layer, is gathered twice per micro-batch. The last
        # layer, the head and the root stay gathered until backward, which does not need the
        # embedding.
        self.assertEqual(kinds["all_gather", "dp_shard_cp"]["count"], 2 * 6)
        self.assertEqual(kinds["reduce_scatter", "dp_shard_cp"]["count"], 5)
        self.assertIn(("all_reduce", "tp"), kinds)
        # One all-reduce per step: six sums over all ranks (loss, squared gradient norm, four
        # flags), and the memory peak of each rank.
        world = kinds["all_reduce", "world"]
        self.assertEqual((world["count"], world["bytes"]), (1, 8 * (6 + 4)))
        self.assertNotIn(("all_reduce", "dp_cp"), kinds)
        self.assertFalse(list(self.path.glob("runs*")))

    def test_a_program_that_trains_a_module(self):
        program = BIN.parent / "docs" / "gpt"
        real = self.am_run("--nproc", "4", "--run-dir", "run", "--exec", program, "fsdp2")
        self.assertEqual(real.returncode, 0, real.stderr)
        listed = subprocess.run([BIN / "am-repl", "step-3", "--json", "-c", "ls"], capture_output=True, text=True,
                                cwd=self.path, check=True).stdout
        total = sum(each["bytes"] for each in json.loads(listed)["results"][0]["parameters"])
        (self.path / "step-3").rename(self.path / "saved")
        dry = self.am_run("--json", "--dry-run", "--nproc", "4", "--rank", "2", "--exec", program, "fsdp2")
        self.assertEqual(dry.returncode, 0, dry.stderr)
        answer = json.loads(dry.stdout)
        self.assertEqual((answer["rank"], answer["world_size"], answer["passes"]), (2, 4, 3))
        parameters = answer["components"]["parameters"]
        self.assertLess(abs(parameters - total / 4), 0.05 * total / 4)  # apart from padding
        moments = answer["components"]["optimizer"]
        self.assertTrue(2 * parameters <= moments < 2.05 * parameters, moments)  # plus a few numbers for clipping
        kinds = {(each["op"], each["group"]): each for each in answer["collectives"]}
        reduced = kinds["reduce_scatter", "dp_shard_cp"]
        self.assertGreaterEqual(reduced["bytes"], total)
        self.assertLess(reduced["bytes"], 1.05 * total)
        self.assertFalse((self.path / "step-3").exists())  # nothing is saved
        refused = self.am_run("--dry-run", "--nproc", "4", "--rank", "4", "--exec", program)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("ranks 0 to 3", refused.stderr)
        silent = self.am_run("--dry-run", "--exec", "true")
        self.assertEqual(silent.returncode, 1, silent.stderr)
        self.assertIn("no report", silent.stderr)

    def test_a_large_world(self):
        answer = self.dry(self.write_plan(plan_text(mesh="world_size = 4096\ntp_size = 2")),
                          "--set", "train.global_batch_size=4096", "--rank", "4095")
        self.assertEqual(answer["world_size"], 4096)
        self.assertGreater(answer["peak_bytes"], 0)

    def test_half_a_billion_micro_batches_are_multiplied(self):
        plan = self.write_plan(plan_text(mesh="world_size = 1"))
        counts = {}
        for rounds in (64, 2**29 // 2):
            answer = self.dry(plan, "--set", f"train.global_batch_size={2 * rounds}")
            self.assertLess(answer["seconds"], 10)
            counts[rounds] = {(c["op"], c["group"]): c["count"] for c in answer["collectives"]}
        self.assertEqual(set(counts[64]), set(counts[2**28]))

    def test_strategies(self):
        for strategy in ("ddp", "megatron_fsdp"):
            answer = self.dry(self.write_plan(plan_text(strategy=strategy)))
            ops = {c["op"] for c in answer["collectives"]}
            self.assertEqual("all_gather" in ops, strategy != "ddp")

    def test_no_such_rank(self):
        result = self.am_run(self.write_plan(plan_text()), "--dry-run", "--rank", "2")
        self.assertEqual(result.returncode, 2)
        self.assertIn("ranks 0 to 1", result.stderr)

    def test_rank_is_the_dry_runs(self):
        self.assertEqual(self.am_run(self.write_plan(plan_text()), "--rank", "1").returncode, 2)

    def test_rules_come_first(self):
        plan = self.write_plan(plan_text(mesh="world_size = 4\ntp_size = 3"))
        result = self.am_run(plan, "--dry-run")
        self.assertEqual(result.returncode, 1)
        self.assertIn("error[", result.stderr)

    def test_in_words(self):
        result = self.am_run(self.write_plan(plan_text()), "--dry-run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("rank 0 of 2: ", result.stdout)
        self.assertIn("reduce_scatter", result.stdout)


if __name__ == "__main__":
    unittest.main()
