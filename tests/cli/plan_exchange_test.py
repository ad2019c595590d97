"""am-plan export and import: files of other frameworks are written and read."""

import json
import os
import tomllib
import unittest
from pathlib import Path

from cli_support import MODELS, SOURCE, PlanCase, run_tool

FRAMEWORKS = ["torchtitan", "megatron", "nemo-automodel", "accelerate", "deepspeed"]
EXAMPLES = sorted((SOURCE / "plans").glob("*.toml"))
# An export may lose these keys, because the layout does not depend on them.
OUTSIDE = ("mesh.ranks_per_node", "cluster.", "data.", "metrics.", "checkpoint.")

SMALL = "[mesh]\nworld_size = 16\ntp_size = 2\npp_size = 2\n[train]\nglobal_batch_size = 32\n"


class Export(PlanCase):
    def test_the_text_on_stdout_and_what_is_lost_on_stderr(self):
        result = self.am_plan("export", self.plan(SMALL), "--to", "accelerate")
        self.assertIn("parallelism_config_tp_size: 2\n", result.out)
        self.assertIn("mesh.pp_size", result.err)
        self.assertIn("accelerate has no pipeline", result.err)
        self.assertNotIn("not exported", result.out)

    def test_json(self):
        answer = self.json("export", self.plan(SMALL), "--to", "deepspeed")
        self.assertEqual(answer["framework"], "deepspeed")
        self.assertEqual(json.loads(answer["text"])["tensor_parallel"], {"autotp_size": 2})
        lost = {item["key"]: item for item in answer["lost"]}
        self.assertEqual(lost["mesh.pp_size"]["value"], 2)
        self.assertIn("PipelineModule", lost["mesh.pp_size"]["why"])

    def test_a_file(self):
        path = self.folder / "titan.toml"
        result = self.am_plan("export", self.plan(SMALL), "--to", "torchtitan", "-o", path)
        self.assertEqual(result.out, "")
        self.assertIn("tensor_parallel_degree = 2", path.read_text())

    def test_flags_are_torchtitans_alone(self):
        plan = self.plan(SMALL)
        flags = self.am_plan("export", plan, "--to", "torchtitan", "--flags").out
        self.assertIn("--parallelism.tensor_parallel_degree=2 \\\n", flags)
        self.assertTrue(flags.endswith("activation_checkpoint:none\n"), flags)
        self.am_plan("export", plan, "--to", "deepspeed", "--flags", status=2)

    def test_an_invalid_plan_is_not_exported(self):
        plan = self.plan("[mesh]\nworld_size = 16\ntp_size = 3\n")
        self.assertFalse(self.json("export", plan, "--to", "megatron", status=1)["ok"])

    def test_a_folder_whose_name_is_no_utf8(self):
        folder = Path(os.fsdecode(os.fsencode(self.folder) + b"/m\xff"))
        folder.mkdir()
        (folder / "config.json").write_bytes((MODELS / "llama-3.1-8b/config.json").read_bytes())
        (folder / "plan.toml").write_text('[model]\npath = "."\n[mesh]\nworld_size = 2\n')
        for framework in FRAMEWORKS:
            answer = self.json("export", "m\udcff/plan.toml", "--to", framework, cwd=self.folder)
            self.assertNotIn("\udcff", answer["text"])

    def test_an_unknown_framework(self):
        result = self.am_plan("export", self.plan(SMALL), "--to", "mesh-tensorflow", status=2)
        self.assertIn("nemo-automodel", result.err)


class RoundTrip(PlanCase):
    def test_example_plans(self):
        self.assertGreaterEqual(len(EXAMPLES), 7)
        for example in EXAMPLES:
            for framework in FRAMEWORKS:
                with self.subTest(plan=example.name, framework=framework):
                    self.round_trip(example, framework)

    def round_trip(self, example, framework):
        answer = self.json("export", example, "--to", framework)
        lost = {item["key"] for item in answer["lost"]}
        theirs = self.write("theirs", answer["text"])
        model = tomllib.loads(example.read_text())["model"]["path"]
        ours = self.folder / "ours.toml"
        ours.unlink(missing_ok=True)
        self.am_plan("import", theirs, "--from", framework, "--model",
                     (example.parent / model).resolve(), "-o", ours)
        if any(key.startswith(("mesh.", "pipeline.", "strategy.name", "strategy.tp_plan"))
               and not key.startswith(OUTSIDE) for key in lost):
            return
        before = self.json("shards", example)
        # The default of train.seq_len exceeds the number of positions of the smallest model.
        given = [f"--set=train.seq_len={tomllib.loads(example.read_text())['train']['seq_len']}"]
        after = self.json("shards", ours, *(given if "train.seq_len" in lost else []))
        self.assertEqual(after["parameters"], before["parameters"])


class Import(PlanCase):
    def test_a_plan_with_what_the_file_says(self):
        path = self.write("ds.json", json.dumps({
            "train_batch_size": 32, "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 3},
            "bf16": {"enabled": True}, "wall_clock_breakdown": False}))
        result = self.am_plan("import", path, "--from", "deepspeed", "--model",
                              MODELS / "llama-3.1-8b")
        self.assertIn("wall_clock_breakdown", result.err)
        plan = self.write("plan.toml", result.out)
        self.assertEqual(self.json("show", plan)["mesh"]["sizes"], [1, 1, 4, 1, 1])
        self.assertEqual(self.json("check", plan)["ok"], True)

    def test_json(self):
        path = self.write("a.yaml", "distributed_type: FSDP\nnum_processes: 4\nfoo: {bar: [1]}\n")
        answer = self.json("import", path, "--from", "accelerate")
        self.assertEqual(answer["plan"]["mesh"]["world_size"], 4)
        self.assertEqual(answer["plan"]["model"]["path"], ".")
        self.assertEqual([(item["key"], item["value"]) for item in answer["ignored"]],
                         [("foo.bar", [1])])

    def test_without_a_model_there_is_a_note(self):
        path = self.write("a.yaml", "distributed_type: FSDP\nnum_processes: 4\n")
        self.assertIn("--model", self.am_plan("import", path, "--from", "accelerate").err)

    def test_the_model_is_relative_to_here_and_the_path_to_the_plan(self):
        self.write("a.yaml", "distributed_type: FSDP\nnum_processes: 4\n")
        (self.folder / "plans").mkdir()
        (self.folder / "model").symlink_to(MODELS / "llama-3.1-8b")
        self.am_plan("import", "a.yaml", "--from", "accelerate", "--model", "model", "-o",
                     "plans/ours.toml", cwd=self.folder)
        plan = self.folder / "plans" / "ours.toml"
        self.assertEqual(tomllib.loads(plan.read_text())["model"]["path"], "../model")
        self.assertEqual(self.json("check", plan)["ok"], True)

    def test_a_model_of_the_files_own_is_noted(self):
        path = self.write("a.yaml", "model:\n  pretrained_model_name_or_path: org/name\n")
        result = self.am_plan("import", path, "--from", "nemo-automodel")
        self.assertIn('path = "org/name"', result.out)
        self.assertIn("--model", result.err)

    def test_errors_have_a_place(self):
        path = self.write("a.yaml", "distributed:\n  tp_size: 1000000000\n  dp_size: x\n")
        answer = self.json("import", path, "--from", "nemo-automodel", status=1)
        found = [(item["rule"], item["line"], item["column"]) for item in answer["diagnostics"]]
        self.assertEqual(sorted(found), [("exchange.type", 3, 12), ("exchange.value", 2, 12)])

    def test_rules_are_in_the_catalogue(self):
        for rule in ("exchange.syntax", "exchange.type", "exchange.value", "exchange.framework",
                     "exchange.lost", "exchange.model"):
            self.am_plan("explain", rule)

    def test_what_would_be_lost_needs_force(self):
        path = self.write("old.toml", "[training]\nsteps = 5\ntensor_parallel_degree = 8\n"
                          "[metrics]\nnote = 1\n")
        ours = self.folder / "ours.toml"
        result = self.am_plan("import", path, "--from", "torchtitan", "-o", ours, status=1)
        self.assertIn(f"{path}:3:26: error[exchange.lost]: training.tensor_parallel_degree = 8",
                      result.err)
        self.assertFalse(ours.exists())
        result = self.am_plan("import", path, "--from", "torchtitan", "-o", ours, "--force")
        self.assertIn("warning[exchange.lost]", result.err)
        self.assertIn("ignored: a plan has no key for it: metrics.note", result.err)
        self.assertTrue(ours.exists())
        answer = self.json("import", path, "--from", "torchtitan", "--force")
        self.assertEqual([item["key"] for item in answer["lost"]],
                         ["training.tensor_parallel_degree"])
        self.assertEqual([item["key"] for item in answer["ignored"]], ["metrics.note"])

    def test_a_file_for_another_model_is_refused(self):
        path = self.write("run.sh", "pretrain_gpt.py --num-layers 32 --num-experts 8 --bf16")
        command = ["import", path, "--from", "megatron", "--model", MODELS / "llama-3.1-8b"]
        found = self.json(*command, status=1)["diagnostics"]
        self.assertEqual([item["rule"] for item in found], ["exchange.model"])
        self.assertIn("--num-experts 8", found[0]["message"])
        self.am_plan(*command, "--force")

    def test_no_plan_is_written_that_check_refuses(self):
        recipe = "distributed:\n  dp_size: 64\n  ep_size: %d\nstep_scheduler:\n  global_batch_size: 64\n"
        path, ours = self.folder / "a.yaml", self.folder / "ours.toml"
        command = ["import", path, "--from", "nemo-automodel", "--model", MODELS / "qwen3-30b-a3b",
                   "-o", ours]
        path.write_text(recipe % 3)
        found = self.json(*command, status=1)["diagnostics"]
        self.assertIn("ep.experts", [item["rule"] for item in found])
        self.assertFalse(ours.exists())
        self.am_plan(*command, "--force")
        ours.unlink()
        path.write_text(recipe % 8)
        self.am_plan(*command)
        self.assertTrue(self.json("check", ours)["ok"])

    def test_variations_of_keys_pass_check_or_are_refused(self):
        files = {
            "deepspeed": [json.dumps({"train_batch_size": 64, "train_micro_batch_size_per_gpu": micro,
                                      "gradient_accumulation_steps": 4 // micro, precision: {"enabled": True},
                                      "zero_optimization": {"stage": stage}})
                          for micro in (1, 2) for precision in ("bf16", "fp16") for stage in range(4)],
            "accelerate": [f"distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\n"
                           f"mixed_precision: {precision}\nfsdp_config:\n"
                           f"  fsdp_sharding_strategy: {strategy}\n"
                           for precision in ("bf16", "fp16", "'no'")
                           for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", 5)],
            "megatron": [f"torchrun --nproc-per-node 8 --nnodes 2 x.py --micro-batch-size 1 "
                         f"--global-batch-size 64 {sizes} {precision} {strategy}"
                         for sizes in ("", "--tensor-model-parallel-size 2",
                                       "--pipeline-model-parallel-size 2",
                                       "--context-parallel-size 2",
                                       "--tensor-model-parallel-size 2 --sequence-parallel")
                         for precision in ("", "--bf16", "--fp16", "--bf16 --grad-reduce-in-bf16")
                         for strategy in ("", "--use-distributed-optimizer", "--use-megatron-fsdp")],
            "torchtitan": [f"[parallelism]\ndata_parallel_shard_degree = {shard}\n"
                           f"data_parallel_replicate_degree = {replicate}\n"
                           f"pipeline_parallel_degree = {pp}\n"
                           f"pipeline_parallel_schedule = \"{schedule}\"\n"
                           "[training]\nlocal_batch_size = 8\nseq_len = 2048\n"
                           for shard in (1, 4) for replicate in (1, 8) for pp in (1, 4)
                           for schedule in ("1F1B", "Interleaved1F1B", "ZBVZeroBubble")],
            "nemo-automodel": [f"distributed:\n  strategy: {strategy}\n  dp_size: 8\n  tp_size: {tp}\n"
                               f"  pp_size: {pp}\n  pipeline: {{pp_schedule: interleaved1f1b, "
                               f"layers_per_stage: {layers}, round_virtual_stages_to_pp_multiple: up}}\n"
                               "step_scheduler: {global_batch_size: 64, local_batch_size: 8}\n"
                               for strategy in ("fsdp2", "megatron_fsdp", "ddp") for tp in (1, 2)
                               for pp in (1, 4) for layers in (2, 3)],
        }
        passed = 0
        ours = self.folder / "ours.toml"
        for framework, texts in files.items():
            for text in texts:
                with self.subTest(framework=framework, text=text):
                    ours.unlink(missing_ok=True)
                    result = run_tool("am-plan", "import", self.write("theirs", text), "--from", framework,
                                       "--model", MODELS / "llama-3.1-8b", "-o", ours)
                    self.assertIn(result.status, (0, 1))
                    self.assertEqual(ours.exists(), result.status == 0)
                    if result.status == 0:
                        self.assertTrue(self.json("check", ours)["ok"])
                        passed += 1
        self.assertGreater(passed, 90)

    def test_any_file_is_not_megatrons(self):
        answer = self.json("import", "/etc/passwd", "--from", "megatron", status=1)
        self.assertFalse(answer["ok"])

    def test_no_file(self):
        self.am_plan("import", self.folder / "none", "--from", "megatron", status=2)


if __name__ == "__main__":
    unittest.main()
