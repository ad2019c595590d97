"""The Python package automesh_tools: the answers of am-plan as dataclasses."""

import dataclasses
import json
import os
import sys
import unittest
from unittest import mock

from cli_support import BIN, MODELS, SOURCE, PlanCase

sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "apps/python"))
import automesh_tools as am  # noqa: E402

GOOD = "[mesh]\nworld_size = 8\ntp_size = 2\n[cluster]\ngpu = \"h100-sxm\"\n"


class Package(PlanCase):
    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.dict(os.environ, AUTOMESH_BIN=str(BIN)))

    def test_it_needs_neither_torch_nor_numpy(self):
        self.assertFalse({"torch", "numpy"} & set(sys.modules))

    def test_check(self):
        result = am.check(self.plan(GOOD))
        self.assertTrue(result and result.ok and result.runs)
        self.assertEqual(result.diagnostics, ())
        result = am.check(self.plan(GOOD), overrides={"mesh.tp_size": 3, "strategy.name": "fsdp2"}, world_size=12)
        self.assertFalse(result)
        self.assertIn("tp.kv_heads", [one.rule for one in result.diagnostics])
        plan = self.plan("[mesh]\nworld_size = 12\ntp_size = 3\n")
        found = {one.rule: one for one in am.check(plan).diagnostics}["tp.kv_heads"]
        self.assertEqual((found.file, found.line, found.column, found.severity), (str(plan), 5, 11, "error"))
        self.assertTrue(str(found).startswith(f"{plan}:5:11: error: tp_size = 3 does not divide"))
        with self.assertRaises(dataclasses.FrozenInstanceError):
            found.line = 1
        absent = am.check(self.folder / "absent.toml")
        self.assertEqual([one.rule for one in absent.diagnostics], ["plan.file"])
        with self.assertRaises(am.PlanError) as caught:
            am.check(plan, dialect="jax")
        self.assertIn("jax", str(caught.exception))

    def test_check_of_other_frameworks(self):
        titan = self.write("titan.toml", "[training]\nseq_len = 2048\n[parallelism]\ntensor_parallel_degree = 3\n"
                           "data_parallel_shard_degree = 4\n")
        result = am.check(titan, framework="torchtitan", model="llama-3.1-8b", world_size=12)
        lines = {one.rule: one.line for one in result.diagnostics if one.severity == "error"}
        self.assertEqual((lines["torchtitan.heads"], lines["torchtitan.seq_len"]), (4, 2))
        self.assertIsNone(result.runs)

    def test_predictions(self):
        plan = self.plan(GOOD)
        memory = am.memory(plan)
        answer = self.json("memory", plan)
        self.assertEqual((memory.peak_bytes, memory.fit, memory.gpu.name), (answer["peak_bytes"], "fits", "h100-sxm"))
        self.assertEqual(dict(memory.components), answer["components"])
        self.assertEqual(memory.stages[0].peak_bytes, answer["stages"][0]["peak_bytes"])
        self.assertEqual(am.memory(plan, rank=3).rank, 3)
        cost = am.cost(plan, overrides={"mesh.tp_size": 1})
        answer = self.json("cost", plan, "--set", "mesh.tp_size=1")
        self.assertEqual((cost.step_seconds, list(cost.interval_seconds)),
                         (answer["step_seconds"], answer["interval_seconds"]))
        self.assertEqual(cost.nearest_runs[0].id, answer["nearest_runs"][0]["id"])
        with self.assertRaises(am.PlanError) as caught:
            am.memory(self.plan("[mesh]\nworld_size = 12\ntp_size = 3\n"))
        self.assertIn("tp.kv_heads", [one.rule for one in caught.exception.diagnostics])

    def test_every_member_of_an_answer_is_typed(self):
        """Members that the dataclasses leave out are listed here, so that new ones are seen."""
        plan = self.plan(GOOD)
        left_out = {am.Cost: {"mfu_by_convention", "mfu_peak", "model_flops_per_token"}}
        for kind, answer in ((am.Memory, self.json("memory", plan)), (am.Cost, self.json("cost", plan)),
                             (am.Layout, self.json("search", "--model", "llama-3.1-8b", "--gpus", 8)["layouts"][0]),
                             (am.Shard, self.json("shards", plan)["parameters"][0])):
            names = {field.name for field in dataclasses.fields(kind)}
            self.assertEqual(set(answer) - names, left_out.get(kind, set()), kind)

    def test_search(self):
        layouts = am.search("llama-3.1-8b", gpus=8, tp=[1, 2], top=3, write=self.folder / "best.toml")
        self.assertEqual(len(layouts), 3)
        self.assertLessEqual(layouts[0].step_seconds, layouts[1].step_seconds)
        self.assertIn(layouts[0].plan["mesh"]["tp_size"], (1, 2))
        self.assertTrue(am.check(self.folder / "best.toml"))
        again = am.search(plan=self.folder / "best.toml", gpus=16, top=1)
        self.assertEqual(again[0].plan["mesh"]["world_size"], 16)
        self.assertEqual(am.search(MODELS / "llama-3.1-405b", gpus=1), ())
        with self.assertRaises(am.PlanError):
            am.search("no-such-model", gpus=8)

    def test_shards_and_import(self):
        (part,) = am.shards(self.plan(GOOD), param="*.0.*.q_proj.weight", rank=1)
        self.assertEqual((part.rank, part.shape, part.placements["tp"]), (1, (4096, 4096), "Shard(0)"))
        titan = self.write("titan.toml", "[training]\nseq_len = 512\n[parallelism]\ntensor_parallel_degree = 2\n"
                           "[profiling]\nenable_profiling = true\n")
        made = am.import_plan(titan, "torchtitan", model="llama-3.1-8b", output=self.folder / "plan2.toml")
        self.assertEqual(made.plan["mesh"]["tp_size"], 2)
        self.assertIn("profiling.enable_profiling", [one.key for one in made.ignored])
        self.assertTrue((self.folder / "plan2.toml").exists())

    def test_a_missing_program_is_named(self):
        with mock.patch.dict(os.environ, {"AUTOMESH_BIN": str(self.folder), "PATH": str(self.folder)}), \
                mock.patch("sysconfig.get_path", return_value=str(self.folder)), \
                mock.patch("sys.executable", str(self.folder / "python")):
            with self.assertRaisesRegex(FileNotFoundError, "AUTOMESH_BIN"):
                am.check("plan.toml")

    def test_answers_of_newer_programs_are_read(self):
        answer = json.dumps({"parameters": [{
            "name": "w", "shape": [2], "placements": {}, "local_shape": [1], "local_offset": [0], "stage": 0, "rank": 0,
            "stored_elements": 1, "more": 3}]})
        program = self.write("am-plan", f"#!/bin/sh\necho '{answer}'\n")
        program.chmod(0o755)
        with mock.patch.dict(os.environ, AUTOMESH_BIN=str(self.folder)):
            self.assertEqual(am.shards("plan.toml")[0].shape, (2,))


if __name__ == "__main__":
    unittest.main()
