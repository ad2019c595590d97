"""am-plan show prints the process groups and pictures of the mesh; am-plan shards prints each
rank's part of a parameter."""

import unittest

from cli_support import PlanCase

FOUR = "[mesh]\nworld_size = 4\ntp_size = 2\nranks_per_node = 2\n"


class ShowTest(PlanCase):
    def test_the_mesh_and_its_groups(self):
        answer = self.json("show", self.plan("[mesh]\nworld_size = 16\ntp_size = 2\ncp_size = 2\n"
                                             "pp_size = 2\n[train]\nglobal_batch_size = 4\n"))
        self.assertEqual(answer["mesh"], {"dims": ["pp", "dp_replicate", "dp_shard", "cp", "tp"],
                                          "sizes": [2, 1, 2, 2, 2]})
        groups = answer["groups"]
        self.assertEqual(groups["tp"][:2], [[0, 1], [2, 3]])
        self.assertEqual(groups["cp"][:2], [[0, 2], [1, 3]])
        self.assertEqual(groups["dp"][:2], [[0, 4], [1, 5]])
        self.assertEqual(groups["pp"][:2], [[0, 8], [1, 9]])
        self.assertEqual(groups["dp_shard_cp"][0], [0, 2, 4, 6])
        self.assertEqual(groups["dp_cp"], groups["dp_shard_cp"])
        for name in ("tp", "cp", "pp", "dp", "dp_shard_cp", "dp_cp", "ep", "ep_shard"):
            self.assertEqual(sorted(sum(groups[name], [])), list(range(16)), name)

    def test_groups_of_a_large_world_are_runs(self):
        def ranks(run):
            return [[run["first"] + run["step"] * group + run["stride"] * rank for rank in range(run["count"])]
                    for group in range(run["groups"])]

        plan = self.plan("[mesh]\nworld_size = 8192\ntp_size = 8\ncp_size = 4\npp_size = 4\nep_size = 16\n"
                         "dp_replicate_size = 2\n[train]\nglobal_batch_size = 256\n")
        doubled = "--set=mesh.world_size=16384"  # doubles the size of dp_shard
        large = self.json("show", plan, doubled)
        self.assertEqual(large["groups"]["tp"], [{"first": 0, "stride": 1, "count": 8, "groups": 2048, "step": 8}])
        self.assertEqual(large["groups"]["pp"], [{"first": 0, "stride": 4096, "count": 4, "groups": 4096, "step": 1}])
        for name, runs in large["groups"].items():
            groups = sum(map(ranks, runs), [])
            self.assertEqual(sorted(sum(groups, [])), list(range(16384)), name)
            self.assertEqual(groups, sorted(groups), name)
        small = self.json("show", plan)
        self.assertEqual(small["groups"]["cp"][9], [33, 41, 49, 57])
        self.assertEqual(ranks(large["groups"]["cp"][1])[1], [33, 41, 49, 57])
        self.assertLess(len(self.am_plan("show", plan, "--json", "--set=mesh.world_size=131072").out), 1 << 20)

    def test_experts(self):
        # The model has no experts, but the groups of expert parallelism are shown.
        groups = self.json("show", self.plan("[mesh]\nworld_size = 8\ntp_size = 2\nep_size = 4\n"))["groups"]
        self.assertEqual(groups["ep"], [[0, 1, 2, 3], [4, 5, 6, 7]])
        self.assertEqual(groups["ep_shard"], [[0, 4], [1, 5], [2, 6], [3, 7]])

    def test_the_picture(self):
        result = self.am_plan("show", self.plan(FOUR))
        self.assertEqual(result.out, """\
4 ranks = dp_shard 2 × tp 2, 2 nodes of 2; dp_shard crosses nodes

┌ nodes 0-1 ────────────────┐
│                  tp0  tp1 │
│ node 0: shard 0    0    1 │
│ node 1: shard 1    2    3 │
└───────────────────────────┘

group        size  groups  nodes  what it does                  ranks
─────────────────────────────────────────────────────────────────────────────
tp              2       2      1  cuts each layer's matrices    {0, 1} {2, 3}
dp              2       2      2  reads different samples       {0, 2} {1, 3}
dp_shard_cp     2       2      2  shards parameters and states  {0, 2} {1, 3}
dp_cp           2       2      2  sums gradients                {0, 2} {1, 3}
""")

    def test_which_axes_cross_nodes(self):
        plan = self.plan("[mesh]\nworld_size = 16\ntp_size = 4\npp_size = 2\n")
        spans = lambda *options: self.json("show", plan, *options)["nodes_of_group"]
        self.assertEqual({spans()[name] for name in ("tp", "dp", "dp_shard_cp")}, {1})
        self.assertEqual(spans()["pp"], 2)
        self.assertIn("; pp crosses nodes\n", self.am_plan("show", plan).out)
        # With 6 ranks per node, some groups of 4 ranks are on two nodes, and others are on one.
        self.assertEqual(spans("--set", "mesh.ranks_per_node=6")["tp"], 2)
        self.assertNotIn("cross", self.am_plan("show", plan, "--set", "mesh.ranks_per_node=16").out)

    def test_ascii_where_the_locale_is_not_unicode(self):
        result = self.am_plan("show", self.plan(FOUR), env={"LC_ALL": "C"})
        self.assertTrue(result.out.isascii())

    def test_a_large_mesh_is_described(self):
        result = self.am_plan("show", self.plan("[mesh]\nworld_size = 65536\ntp_size = 8\n"))
        self.assertIn("too many ranks to draw", result.out)
        self.assertIn("{0-7} {8-15} {16-23} ...", result.out)

    def test_a_mesh_that_is_none(self):
        answer = self.json("show", self.plan("[mesh]\nworld_size = 5\ntp_size = 2\n"), status=1)
        self.assertEqual([d["rule"] for d in answer["diagnostics"]], ["mesh.divide"])


class ShardsTest(PlanCase):
    def shards(self, plan, *arguments):
        answer = self.json("shards", plan, *arguments)
        return {p["name"]: p for p in answer["parameters"]}

    def test_tp_first_then_fsdp(self):
        plan = self.plan(FOUR)
        for rank, offset in enumerate([0, 2048, 1024, 3072]):
            query = self.shards(plan, "--rank", rank)["model.layers.7.self_attn.q_proj.weight"]
            self.assertEqual(query["placements"], {"tp": "Shard(0)", "dp_shard_cp": "Shard(0)"})
            self.assertEqual(query["shape"], [4096, 4096])
            self.assertEqual(query["local_shape"], [1024, 4096])
            self.assertEqual(query["local_offset"], [offset, 0])
            self.assertEqual(query["stage"], 0)

    def test_every_parameter_is_covered_once(self):
        plan = self.plan("[mesh]\nworld_size = 6\ntp_size = 2\n", model="qwen2.5-0.5b")
        held = {}
        for rank in range(6):
            for name, shard in self.shards(plan, "--rank", rank).items():
                if shard["placements"]["tp"] == "Replicate" and rank % 2 == 1:
                    continue
                size = 1
                for length in shard["local_shape"]:
                    size *= length
                held[name] = held.get(name, 0) + size
        self.assertEqual(sum(held.values()), 494032768)
        self.assertEqual(len(held), 24 * 12 + 2)

    def test_uneven_pieces_are_torch_chunks(self):
        plan = self.plan("[mesh]\nworld_size = 7\n")
        pieces = [self.shards(plan, "--rank", r, "--param", "model.norm.weight")["model.norm.weight"]
                  for r in range(7)]
        self.assertEqual([p["local_shape"][0] for p in pieces], [586] * 6 + [580])
        self.assertEqual([p["local_offset"][0] for p in pieces], [586 * r for r in range(7)])
        self.assertEqual({p["stored_elements"] for p in pieces}, {586})

    def test_globs(self):
        plan = self.plan(FOUR)
        self.assertEqual(list(self.shards(plan, "--param", "*layers.3.mlp.*_proj.weight")),
                         [f"model.layers.3.mlp.{n}_proj.weight" for n in ("gate", "up", "down")])
        answer = self.json("shards", plan, "--param", "model.nrom.weight", status=1)
        self.assertIn("model.norm.weight", answer["diagnostics"][0]["help"])

    def test_stages(self):
        plan = self.plan("[mesh]\nworld_size = 2\npp_size = 2\n[train]\nglobal_batch_size = 2\n")
        everything = self.shards(plan)
        self.assertEqual(len(everything), 32 * 9 + 3)
        self.assertEqual(everything["model.embed_tokens.weight"]["stage"], 0)
        self.assertEqual(everything["lm_head.weight"]["stage"], 1)
        self.assertNotIn("lm_head.weight", self.shards(plan, "--rank", 0))
        self.assertIn("lm_head.weight", self.shards(plan, "--rank", 1))

    def test_one_parameter_is_drawn(self):
        result = self.am_plan("shards", self.plan(FOUR), "--param", "model.layers.0.mlp.down_proj.weight")
        self.assertIn("columns 0-7167", result.out)
        self.assertIn("rank 3", result.out)

    def test_layers_share_a_row(self):
        result = self.am_plan("shards", self.plan(FOUR), env={"COLUMNS": "140"})
        self.assertIn("model.layers.*.mlp.up_proj.weight", result.out)
        self.assertLess(len(result.out.splitlines()), 20)

    def test_ranks_that_are_not_there(self):
        result = self.am_plan("shards", self.plan(FOUR), "--rank", 4, status=2)
        self.assertIn("ranks 0 to 3", result.err)

    def test_missing_data_does_not_hinder(self):
        plan = self.plan(FOUR + "[data]\nkind = \"text\"\npath = \"elsewhere\"\n")
        result = self.am_plan("shards", plan)
        self.assertIn("am-plan check", result.err)
        self.am_plan("check", plan, status=1)

    def test_a_wrong_layout_is_not_shown(self):
        plan = self.plan("[mesh]\nworld_size = 12\ntp_size = 3\n")
        answer = self.json("shards", plan, status=1)
        self.assertFalse(answer["ok"])
        self.assertIn("tp.heads", [d["rule"] for d in answer["diagnostics"]])


class TpTest(PlanCase):
    def test_the_family_plan(self):
        answer = self.json("tp", self.plan(FOUR, model="qwen3-0.6b"))
        self.assertEqual(answer["source"], "family qwen3")
        rules = {r["pattern"]: r for r in answer["rules"]}
        self.assertEqual(rules["model.layers.*.mlp.down_proj"]["style"], "rowwise")
        self.assertEqual(len(rules["model.layers.*.mlp.down_proj"]["modules"]), 28)
        self.assertEqual(answer["unmatched"], [])
        rest = {p["name"]: p["grad_sum_over_tp"] for p in answer["replicated"]}
        self.assertTrue(rest["model.layers.*.self_attn.q_norm.weight"])
        self.assertFalse(rest["model.norm.weight"])

    def test_norms_over_heads_are_noted(self):
        answer = self.json("tp", self.plan(FOUR, model="qwen3-0.6b"))
        note = answer["diagnostics"][0]
        self.assertEqual((note["rule"], note["severity"]), ("tp.qk_norm", "note"))
        self.assertIn("model.layers.*.self_attn.q_norm.weight", note["message"])
        self.assertEqual(self.json("tp", self.plan(FOUR))["diagnostics"], [])

    def test_patterns_that_match_nothing_are_shown(self):
        plan = self.plan(FOUR + '[strategy]\ntp_plan = { "model.layers.*.mlp.gate_up" = "colwise" }\n')
        answer = self.json("tp", plan, status=1)
        self.assertEqual(answer["unmatched"], ["model.layers.*.mlp.gate_up"])
        self.assertEqual([d["rule"] for d in answer["diagnostics"]], ["tp.pattern"])
        result = self.am_plan("tp", plan, status=1)
        self.assertIn("nothing", result.out)


if __name__ == "__main__":
    unittest.main()
