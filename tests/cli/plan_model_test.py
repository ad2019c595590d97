"""am-plan model prints exact counts of parameters, and am-plan memory prints exact bytes of
parameters, gradients and optimizer states."""

import csv
import json
import unittest

from cli_support import MODELS, SOURCE, PlanCase


class ModelTest(PlanCase):
    def test_counts_are_the_published_ones(self):
        with open(SOURCE / "tests" / "data" / "models" / "parameters.csv") as file:
            rows = list(csv.DictReader(file))
        self.assertGreater(len(rows), 15)
        for row in rows:
            with self.subTest(row["folder"]):
                answer = self.json("model", MODELS / row["folder"])
                self.assertEqual(answer["parameters"], int(row["parameters"]))
                self.assertEqual(answer["active_parameters"], int(row["active_parameters"]))
                self.assertEqual(sum(answer["parameters_by_module"].values()), answer["parameters"])

    def test_the_answer(self):
        answer = self.json("model", MODELS / "llama-3.2-1b" / "config.json")
        self.assertEqual(answer["model_type"], "llama")
        self.assertEqual(answer["layers"], 16)
        self.assertNotIn("lm_head", answer["parameters_by_module"])
        result = self.am_plan("model", MODELS / "llama-3.2-1b")
        self.assertIn("1 235 814 400", result.out)

    def test_a_model_without_attention_has_no_heads_and_no_limit_of_positions(self):
        sizes = {"model_type": "mamba", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2}
        config = self.write("config.json", json.dumps(sizes))
        answer = self.json("model", config)
        for key in ("attention_heads", "key_value_heads", "head_dim", "max_position_embeddings"):
            self.assertNotIn(key, answer)
        self.assertEqual(answer["seq_len"], 4096)
        result = self.am_plan("model", config)
        self.assertNotIn("heads", result.out)
        self.assertNotIn("positions", result.out)

    def test_an_unknown_family_lists_the_known_ones(self):
        config = self.write("config.json", '{"model_type": "qwen4"}')
        answer = self.json("model", config, status=1)
        self.assertFalse(answer["ok"])
        self.assertEqual(answer["diagnostics"][0]["rule"], "model.family")
        for name in ("llama", "mistral", "qwen2", "qwen3"):
            self.assertIn(name, answer["diagnostics"][0]["help"])

    def test_experts_are_counted_together_and_apart(self):
        answer = self.json("model", MODELS / "mixtral-8x7b-v0.1")
        modules = answer["parameters_by_module"]
        self.assertEqual(modules["model.layers.*.block_sparse_moe.experts.*.w1"],
                         32 * 8 * 4096 * 14336)
        self.assertEqual(modules["model.layers.*.block_sparse_moe.gate"], 32 * 8 * 4096)
        self.assertEqual((answer["experts"], answer["experts_per_token"]), (8, 2))
        result = self.am_plan("model", MODELS / "mixtral-8x7b-v0.1")
        self.assertIn("2 of 8 experts per token, of width 14336", result.out)
        self.assertIn("active for one token: 12 879 925 248", result.out)

    def test_multi_token_prediction_is_counted_apart(self):
        answer = self.json("model", MODELS / "deepseek-v3")
        self.assertEqual(answer["mtp_layers"], 1)
        self.assertGreater(answer["parameters_with_mtp"], answer["parameters"] + 11e9)
        result = self.am_plan("model", MODELS / "deepseek-v3")
        self.assertIn("with 1 MTP layer: 682 ", result.out)
        self.assertIn("latent attention", result.out)

    def test_an_unknown_model_of_llamas_shape_is_planned_with_a_warning(self):
        config = json.loads((MODELS / "llama-3.2-1b" / "config.json").read_text())
        file = self.write("config.json", json.dumps({**config, "model_type": "lama"}, indent=1))
        result = self.am_plan("model", file)
        self.assertIn("warning[model.family]", result.err)
        self.assertIn('did you mean "llama"', result.err)
        self.assertEqual(self.json("model", file)["parameters"], 1235814400)

    def test_a_misspelt_name_of_a_model_names_the_nearest(self):
        for command in (("model", "llama-3.1-8c"), ("search", "--model", "llama-3.1-8c", "--gpus", "8")):
            self.assertIn('did you mean "llama-3.1-8b"?', self.am_plan(*command, status=2, cwd=self.folder).err)

    def test_the_text_part_of_a_multimodal_config(self):
        text = json.loads((MODELS / "gemma-3-4b" / "config.json").read_text())
        file = self.write("config.json", json.dumps(
            {"model_type": "gemma3", "text_config": text, "vision_config": {}}, indent=1))
        self.assertIn("warning[model.text_part]", self.am_plan("model", file).err)
        self.assertEqual(self.json("model", file)["parameters"], 3880263168)

    def test_every_family_has_sequence_parallelism(self):
        for model in ("phi-4", "mixtral-8x7b-v0.1", "deepseek-v3"):
            with self.subTest(model):
                plan = self.plan("[mesh]\nworld_size = 2\ntp_size = 2\n"
                                 "[strategy]\nsequence_parallel = true\n", model=model)
                self.assertEqual(self.json("check", plan)["plans"][0]["diagnostics"], [])
                self.assertTrue(self.json("tp", plan)["sequence_parallel"])

    def test_expert_parallelism_divides_the_experts(self):
        for model, ep, rules in (("mixtral-8x7b-v0.1", 4, []),
                                 ("mixtral-8x7b-v0.1", 16, ["ep.experts"]),
                                 ("llama-3.2-1b", 2, ["ep.experts"])):
            with self.subTest(f"{model} {ep}"):
                plan = self.plan(f"[mesh]\nworld_size = 16\nep_size = {ep}\n", model=model)
                self.assertEqual(self.rules(plan, status=1 if rules else 0), rules)

    def test_expert_parallelism_places_experts(self):
        plan = self.plan("[mesh]\nworld_size = 16\nep_size = 8\n", model="mixtral-8x7b-v0.1")
        of_rank = lambda rank: {p["name"]: p for p in self.json(
            "shards", plan, "--rank", rank, "--param", "*.layers.0.*")["parameters"]}
        for rank in (0, 3, 11):
            experts = {name.split(".")[5] for name in of_rank(rank) if ".experts." in name}
            self.assertEqual(experts, {str(rank % 8)})
        own = of_rank(11)["model.layers.0.block_sparse_moe.experts.3.w2.weight"]
        self.assertEqual(own["placements"], {"ep_shard": "Shard(0)"})
        self.assertEqual((own["local_shape"], own["local_offset"]), ([2048, 14336], [2048, 0]))
        # A rank's bytes of parameters do not depend on expert parallelism.
        states = lambda *options: self.json("memory", plan, *options)["components"]["parameters"]
        self.assertEqual(states(), states("--set", "mesh.ep_size=1"))

    def test_files_that_are_no_configs(self):
        for data in (b"", b"{", b"[]", b"\xff\xfe\x00", b'{"model_type": "llama"}', b"null"):
            with self.subTest(data):
                config = self.write("config.json", data)
                answer = self.json("model", config, status=1)
                self.assertEqual(answer["diagnostics"][0]["file"], str(config))
        result = self.am_plan("model", self.folder / "absent", status=2)
        self.assertIn("absent", result.err)
        (self.folder / "config.json").unlink()
        self.am_plan("model", self.folder, status=2)  # a folder without config.json


class MemoryTest(PlanCase):
    FLOAT32 = ('[strategy]\nmp_policy = { param_dtype = "float32", reduce_dtype = "float32", '
               'output_dtype = "float32" }\n')

    def test_states_are_exact(self):
        plan = self.plan("[mesh]\nworld_size = 1\n[train]\nseq_len = 128\n" + self.FLOAT32, model="llama-3.1-8b")
        answer = self.json("memory", plan)  # the peak is in the optimizer's update, when all gradients exist
        parts = answer["components"]
        self.assertEqual(set(parts), {"parameters", "gradients", "optimizer", "activations",
                                      "logits", "unsharded", "communication", "other"})
        self.assertEqual(parts["parameters"], 8030261248 * 4)
        self.assertEqual(parts["gradients"], parts["parameters"])
        self.assertEqual(parts["optimizer"], 2 * parts["parameters"])
        self.assertEqual(sum(parts.values()), answer["peak_bytes"])

    def test_sizes_follow_the_plan(self):
        plan = self.plan("[mesh]\nworld_size = 8\n[train]\nseq_len = 1024\n")
        base = self.json("memory", plan)["components"]
        longer = self.json("memory", plan, "--set", "train.seq_len=2048")["components"]
        self.assertEqual(longer["parameters"], base["parameters"])
        self.assertGreater(longer["activations"], 1.9 * base["activations"])
        long = ("--set", "train.seq_len=16384")  # with long sequences, the peak is in the head's backward
        whole = self.json("memory", plan, *long)["components"]["logits"]
        cut = self.json("memory", plan, *long, "--set", "mesh.tp_size=8")["components"]["logits"]
        self.assertEqual(whole, 16384 * 128256 * 2)
        self.assertLess(cut, whole)
        ddp = self.json("memory", plan, "--set", "strategy.name='ddp'")["components"]
        self.assertEqual(ddp["parameters"], 4 * 8030261248)

    def test_other_implementations_and_the_gpu(self):
        plan = self.plan("[mesh]\nworld_size = 16\ntp_size = 2\npp_size = 2\n"
                         "[train]\nglobal_batch_size = 8\nseq_len = 16384\n")
        own = self.json("memory", plan)
        self.assertEqual(own["implementation"], "automesh")
        self.assertEqual((own["gpu"]["name"], own["gpu"]["assumed"], own["fit"]), ("h100-sxm", True, "fits"))
        text = self.am_plan("memory", plan).out
        self.assertIn("[cluster] gpu is not set: h100-sxm is assumed", " ".join(text.split()))
        self.assertGreater(own["process_bytes"], own["reserved_bytes"])
        self.assertGreater(own["reserved_bytes"], own["peak_bytes"])
        peaks = {}
        for name in ("torchtitan", "megatron"):
            options = ("--set", f"cluster.implementation='{name}'", "--set", "cluster.gpu='h100'")
            other = self.json("memory", plan, *options)
            self.assertEqual(other["implementation"], name)
            self.assertEqual(sum(other["components"].values()), other["peak_bytes"])
            self.assertEqual([(s["stage"], s["rank"]) for s in other["stages"]], [(0, 0), (1, 8)])
            self.assertEqual(other["gpu"]["name"], "h100-sxm")
            self.assertEqual(self.json("memory", plan, "--rank", 9, *options)["stages"][0]["stage"],
                             1)
            peaks[name] = other["peak_bytes"]
        self.assertNotEqual(peaks["torchtitan"], peaks["megatron"])
        fit = lambda gpu: self.json("memory", plan, "--set", f"cluster.gpu='{gpu}'")["fit"]
        self.assertEqual(fit("mi300x"), "fits")
        self.assertEqual(fit("v100-sxm2"), "too_large")
        self.assertIn("it does not fit",
                      self.am_plan("memory", plan, "--set", "cluster.gpu='v100-sxm2'").out)

    def test_stages_and_ranks(self):
        plan = self.plan("[mesh]\nworld_size = 4\npp_size = 2\n[train]\nglobal_batch_size = 4\n")
        answer = self.json("memory", plan)
        self.assertEqual([s["stage"] for s in answer["stages"]], [0, 1])
        self.assertEqual(answer["peak_bytes"], max(s["peak_bytes"] for s in answer["stages"]))
        one = self.json("memory", plan, "--rank", 3)
        self.assertEqual(one["rank"], 3)
        self.assertEqual(len(one["stages"]), 1)

    def test_people_get_one_unit(self):
        result = self.am_plan("memory", self.plan("[mesh]\nworld_size = 8\n"))
        lines = [line for line in result.out.splitlines() if line.startswith(
            ("parameters", "gradients", "optimizer", "activations"))]
        self.assertEqual(len(lines), 3)  # three of the four: gradients do not exist at the peak
        for line in lines:
            self.assertIn(" GiB", line)
        self.assertNotIn(" 0.00 GiB", result.out)
        small = self.am_plan("memory", SOURCE / "plans" / "quickstart.toml").out
        self.assertIn("h100-sxm has 79.10 GiB", " ".join(small.split()))
        self.assertIn("worst rank 0 of 8 ranks", result.out)

    def test_absurd_sizes_do_not_overflow(self):
        plan = self.plan("[mesh]\nworld_size = 1\n[train]\nmicro_batch_size = 1048576\n")
        answer = self.json("memory", plan)
        self.assertGreater(answer["peak_bytes"], 2**50)
        for value in answer["components"].values():
            self.assertGreaterEqual(value, 0)


if __name__ == "__main__":
    unittest.main()
