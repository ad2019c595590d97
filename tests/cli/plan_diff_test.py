"""am-plan diff prints the changes between two plans."""

import unittest

from cli_support import PlanCase

A = "[mesh]\nworld_size = 16\n[train]\nglobal_batch_size = 16\n"
B = "[mesh]\nworld_size = 16\ntp_size = 2\n[train]\nglobal_batch_size = 16\n"


class Diff(PlanCase):
    def both(self, a=A, b=B, **models):
        return self.plan(a, name="a.toml"), self.plan(b, name="b.toml", **models)

    def test_keys(self):
        answer = self.json("diff", *self.both())
        self.assertEqual(answer["plan"], [{"key": "mesh.tp_size", "a": 1, "b": 2}])
        self.assertEqual(answer["mesh"], {"dp_shard": {"a": 16, "b": 8}, "tp": {"a": 1, "b": 2}})

    def test_memory_is_that_of_the_memory_command(self):
        a, b = self.both()
        peaks = {name: self.json("memory", path)["peak_bytes"] for name, path in
                 (("a", a), ("b", b))}
        self.assertEqual(self.json("diff", a, b)["memory"]["peak_bytes"], peaks)

    def test_cost_is_that_of_the_cost_command(self):
        a, b = self.both()
        answer = self.json("diff", a, b)["cost"]
        for name, path in (("a", a), ("b", b)):
            cost = self.json("cost", path)
            self.assertAlmostEqual(answer["step_seconds"][name], cost["step_seconds"])
            self.assertEqual(answer["communication"]["dp"][name], cost["communication"]["dp"])
            self.assertEqual(answer["communication"]["tp"][name], cost["communication"]["tp"])
        self.assertNotIn("pp", answer["communication"])

    def test_shards_of_all_layers_together(self):
        a, b = self.both()
        shards = {item["pattern"]: item for item in self.json("diff", a, b)["shards"]}
        up = shards["model.layers.*.mlp.up_proj.weight"]
        self.assertEqual(up["times"], 32)
        self.assertEqual(up["shape"], [14336, 4096])
        self.assertEqual(up["b"]["placements"], "dp_shard_cp: Shard(0), tp: Shard(0)")
        listed = {item["name"]: item["local_shape"] for item in self.json("shards", b)["parameters"]}
        self.assertEqual(up["b"]["local_shape"], listed["model.layers.5.mlp.up_proj.weight"])
        # 4096 rows over 16 ranks, or over 8: tp does not shard norms.
        norm = shards["model.layers.*.input_layernorm.weight"]
        self.assertEqual((norm["a"]["local_shape"], norm["b"]["local_shape"]), ([256], [512]))

    def test_equal_plans_differ_in_nothing(self):
        a, b = self.both(b=A)
        answer = self.json("diff", a, b)
        for field in ("plan", "shards"):
            self.assertEqual(answer[field], [])
        for field in ("mesh", "memory"):
            self.assertEqual(answer[field], {})
        self.assertEqual(answer["cost"], {"communication": {}})
        self.assertIn("the plans are the same", self.am_plan("diff", a, b).out)

    def test_what_is_the_same_is_not_printed(self):
        out = self.am_plan("diff", *self.both()).out
        self.assertIn("mesh.tp_size", out)
        self.assertNotIn("dp_replicate", out)
        self.assertNotIn("seq_len", out)

    def test_strategies(self):
        a, b = self.both(b=A + '[strategy]\nname = "ddp"\n')
        keys = {item["key"]: (item["a"], item["b"]) for item in self.json("diff", a, b)["plan"]}
        self.assertEqual(keys, {"strategy.name": ("fsdp2", "ddp")})

    def test_other_models(self):
        a, b = self.both(model="qwen3-8b")
        answer = self.json("diff", a, b)
        self.assertFalse(answer["same_model"])
        self.assertEqual(answer["shards"], [])
        self.assertIn("the plans have different models", self.am_plan("diff", a, b).out)

    def test_overrides_hold_for_both(self):
        a, b = self.both(b=A)
        self.assertEqual(self.json("diff", a, b, "--set", "mesh.tp_size=4")["plan"], [])

    def test_an_invalid_plan(self):
        a, b = self.both(b="[mesh]\nworld_size = 16\ntp_size = 3\n")
        self.am_plan("diff", a, b, status=1)
        self.am_plan("diff", a, self.folder / "none.toml", status=2)


if __name__ == "__main__":
    unittest.main()
