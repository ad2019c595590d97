"""am-plan cost and search."""

import csv
import subprocess
import unittest

from cli_support import MODELS, SOURCE, PlanCase, long_search

MESH = "[mesh]\nworld_size = 64\ntp_size = 4\n[train]\nseq_len = 8192\nglobal_batch_size = 128\n"


class CostTest(PlanCase):
    def test_fields(self):
        plan = self.plan(MESH + '[cluster]\ngpu = "h100-sxm"\nimplementation = "torchtitan"\n',
                         model="llama-3.1-70b")
        answer = self.json("cost", plan)
        for key in ("step_seconds", "tokens_per_second_per_gpu", "model_flops_per_token", "mfu",
                    "bubble_fraction"):
            self.assertIsInstance(answer[key], (int, float))
        self.assertEqual(set(answer["communication"]), {"tp", "cp", "ep", "pp", "dp"})
        self.assertGreater(answer["communication"]["tp"], 0)
        self.assertEqual(answer["communication"]["pp"], 0)
        low, high = answer["interval_seconds"]
        self.assertTrue(low < answer["step_seconds"] < high)
        self.assertAlmostEqual(sum(answer["seconds"].values()), answer["step_seconds"], places=6)
        self.assertEqual(answer["gpu"], "h100-sxm")
        self.assertTrue(answer["nearest_runs"][0]["source"])
        tokens = 128 * 8192
        rate = answer["tokens_per_second_per_gpu"]
        self.assertAlmostEqual(rate * 64 * answer["step_seconds"] / tokens, 1.0, places=9)
        text = self.am_plan("cost", plan).out
        self.assertIn("nearest runs", text)
        self.assertIn("MFU as counted by", text)

    def test_every_key_that_changes_the_step_changes_the_prediction(self):
        def seconds(text):
            return self.json("cost", self.plan(text, model="llama-3.1-8b"))["step_seconds"]
        stages = "[mesh]\nworld_size = 8\npp_size = 4\n[train]\nglobal_batch_size = 32\n" \
                 "[pipeline]\nmicrobatches = 16\n"
        even = seconds(stages)
        self.assertGreater(seconds(stages + "split_points = [29, 30, 31]\n"), 1.5 * even)
        # With half as many micro-batches per round, a step has two rounds, and each drains the
        # pipeline.
        self.assertGreater(seconds(stages.replace("microbatches = 16", "microbatches = 8")), even)

        one = "[mesh]\nworld_size = 8\n[train]\nseq_len = 4096\n[strategy]\n"
        off, full = seconds(one), seconds(one + 'activation_checkpointing = "full"\n')
        mlp = seconds(one + 'activation_checkpointing = "mlp"\n')
        every = seconds(one + 'activation_checkpointing = "full"\nactivation_checkpointing_every = 4\n')
        self.assertTrue(off < mlp < full)
        self.assertTrue(off < every < full)
        self.assertAlmostEqual((every - off) / (full - off), 0.25, delta=0.02)

        wide = "mp_policy = { param_dtype = \"float32\" }\n"
        self.assertLess(seconds(one + wide + 'autocast_dtype = "bfloat16"\n'), 0.5 * seconds(one + wide))
        self.assertGreater(seconds(one + "offload_policy = { pin_memory = true }\n"), 1.2 * off)

    def test_a_job_has_days_and_a_price(self):
        text = '[mesh]\nworld_size = 64\n[cluster]\ngpu = "h100-sxm"\n[train]\nmax_steps = 100\n'
        plan = self.plan(text, model="llama-3.1-8b")
        cost = self.json("cost", plan)
        job = self.json("job", plan, "--tokens", "15T", "--price", "2.5")
        self.assertEqual(job["tokens"], 15e12)
        self.assertEqual(job["step_seconds"], cost["step_seconds"])
        rate = cost["tokens_per_second_per_gpu"] * job["gpus"]
        self.assertAlmostEqual(job["days"] * 24 * 3600 * rate / 15e12, 1.0, places=6)
        self.assertAlmostEqual(job["gpu_hours"], job["days"] * 24 * job["gpus"], places=3)
        self.assertAlmostEqual(job["price"], 2.5 * job["gpu_hours"], places=3)
        low, high = job["interval_days"]
        self.assertTrue(low < job["days"] < high)
        self.assertIsNone(job["failures"])
        own = self.json("job", plan)
        self.assertEqual(own["steps"], 100)
        self.assertIsNone(own["price"])
        rates = ("--set", "cluster.hours_between_failures=5000", "--set", "cluster.storage_gb_per_s=10")
        failing = self.json("job", plan, "--tokens", "15e12", *rates)
        self.assertAlmostEqual(failing["days"] * failing["failures"]["goodput"], job["days"], places=6)
        self.assertAlmostEqual(failing["checkpoint_bytes"], self.json("cost", plan, *rates)["failures"]["checkpoint_bytes"])
        text = self.am_plan("job", plan, "--tokens", "15T", "--price", "2.5").out
        for part in ("15.00 T in", "days, between", "GPU-hours", "cluster.hours_between_failures"):
            self.assertIn(part, text)
        limited = self.json("job", plan, "--set", "train.max_tokens=15000000000000", "--set", "train.max_steps=100000000000")
        self.assertEqual(limited["tokens"], 15e12)
        self.am_plan("job", plan, "--set", "train.max_steps=0", status=2)
        for option in ("--tokens", "--price"):  # an unset shell variable leaves an empty word
            self.am_plan("job", plan, option, "", status=2)
        self.am_plan("job", plan, "--tokens", "1e300", status=2)
        for wrong in ("0", "-1", "many", "1Q", "1e400"):
            self.assertIn("is not a positive number", self.am_plan("job", plan, f"--tokens={wrong}", status=2).err)

    def test_failures_make_a_goodput_and_a_best_interval(self):
        rates = '[cluster]\ngpu = "h100-sxm"\nhours_between_failures = 5000\nstorage_gb_per_s = 10\n'
        saves = "[checkpoint]\nevery = 1000\n"
        plan = self.plan(MESH + rates + saves, model="llama-3.1-70b")
        answer = self.json("cost", plan)
        failures = answer["failures"]
        self.assertAlmostEqual(failures["seconds_between"], 3600 * 5000 / 64)
        self.assertEqual(failures["checkpoint_every"], 1000)
        self.assertAlmostEqual(failures["save_seconds"], failures["checkpoint_bytes"] / 10e9, places=6)
        self.assertTrue(0.5 < answer["goodput"] < failures["best_goodput"] < 1.0)
        best = failures["best_checkpoint_every"]
        at = {}
        for every in (best - 1, best, best + 1):
            at[every] = self.json("cost", plan, "--set", f"checkpoint.every={every}")["goodput"]
        self.assertEqual(max(at, key=at.get), best)
        self.assertAlmostEqual(at[best], failures["best_goodput"])
        self.assertAlmostEqual(failures["gpu_hours"], 64 * failures["hours"])
        background = self.json("cost", plan, "--set", "checkpoint.async=true")["failures"]
        self.assertLess(background["save_seconds"], 0.1 * failures["save_seconds"])
        self.assertGreater(background["best_goodput"], failures["best_goodput"])
        text = " ".join(self.am_plan("cost", plan).out.split())
        self.assertIn("one failure every 3 d 6:07:30", text)
        self.assertIn("with saves every 1000 steps", text)
        for without in ("hours_between_failures", "storage_gb_per_s"):
            said = self.json("cost", plan, "--set", f"cluster.{without}=0")
            self.assertNotIn("goodput", said)
            self.assertIn("cluster.failures", self.rules(plan, "--set", f"cluster.{without}=0", status=0))

    def test_search_ranks_by_what_failures_leave(self):
        common = ["search", "--model", MODELS / "llama-3.1-8b", "--gpus", 64, "--top", 4]
        rates = ["--hours-between-failures", 2000, "--storage-gb-per-s", 1]
        answer = self.json(*common, "--goal", "goodput", *rates)
        times = [layout["step_seconds"] / layout["goodput"] for layout in answer["layouts"]]
        self.assertEqual(times, sorted(times))
        first = answer["layouts"][0]
        self.assertEqual(first["plan"]["cluster"]["hours_between_failures"], 2000)
        self.assertGreater(first["plan"]["checkpoint"]["every"], 1)
        self.assertNotIn("goodput", self.json(*common)["layouts"][0])
        self.assertIn("goodput", self.am_plan(*common, "--goal", "goodput", *rates).out)
        for alone in (rates, ["--goal", "goodput"], ["--goal", "goodput", *rates[:2]]):
            self.assertIn("must be given together", self.am_plan(*common, *alone, status=2).err)

    def test_tensor_parallelism_leaves_small_nodes(self):
        plan = self.plan("[mesh]\nworld_size = 64\ntp_size = 8\n[train]\nglobal_batch_size = 64\n",
                         model="llama-3.1-8b")
        near = self.json("cost", plan)["seconds"]["tp"]
        for narrow in ("mesh.ranks_per_node=1", "cluster.nodes=64"):
            self.assertGreater(self.json("cost", plan, "--set", narrow)["seconds"]["tp"], 3 * near)

    def test_what_nobody_has_measured_has_no_interval(self):
        def cost(gpu, implementation, model):
            plan = self.plan(MESH + f'[cluster]\ngpu = "{gpu}"\nimplementation = "{implementation}"\n',
                             model=model)
            return self.json("cost", plan), self.am_plan("cost", plan).out
        answer, text = cost("h100-sxm", "torchtitan", "llama-3.1-70b")
        self.assertNotIn("basis", answer)
        self.assertIn(", between ", text)
        answer, text = cost("mi300x", "torchtitan", "llama-3.1-70b")
        self.assertIsNone(answer["interval_seconds"])
        self.assertIn("No run on a GPU of the architecture of mi300x was measured", answer["basis"])
        self.assertIn("No run on a GPU of the architecture of mi300x was measured", text)
        self.assertNotIn(", between ", text)
        known, _ = cost("h100-sxm", "nemo", "llama-3.1-70b")
        unseen, text = cost("h100-sxm", "automesh", "llama-3.1-70b")
        self.assertIn("No run of automesh was measured", text)
        ratio = lambda answer: answer["interval_seconds"][1] / answer["interval_seconds"][0]
        self.assertGreater(ratio(unseen), ratio(known))

    def test_nearest_runs_say_precision_sequence_and_batch(self):
        plan = self.plan(MESH + '[cluster]\ngpu = "h100-sxm"\nimplementation = "torchtitan"\n',
                         model="llama-3.1-70b")
        for near in self.json("cost", plan)["nearest_runs"]:
            self.assertIn(near["precision"], ("fp32", "fp16", "bf16", "fp8", "fp4"))
            self.assertGreater(near["seq_len"], 0)
            self.assertGreater(near["global_batch_size"], 0)

    def test_memory_says_what_was_measured(self):
        def text(implementation):
            plan = self.plan(MESH + '[cluster]\ngpu = "h100-sxm"\n'
                             f'implementation = "{implementation}"\n', model="llama-3.1-70b")
            return " ".join(self.am_plan("memory", plan).out.split())
        self.assertIn("nine in ten", text("torchtitan"))
        self.assertNotIn("nine in ten", text("maxtext"))
        self.assertIn("no measured run recorded the memory of a dense model on h100-sxm with this implementation",
                      text("maxtext"))

    def test_a_strategy_that_computes_in_float32_says_so(self):
        text = MESH.replace("tp_size = 4\n", "")
        text += '[cluster]\ngpu = "h100-sxm"\n[strategy]\nname = "ddp"\n'
        plan = self.plan(text)
        found = self.diagnostics(plan, status=0)
        self.assertEqual([(item["rule"], item["severity"]) for item in found
                          if item["rule"] == "strategy.float32"], [("strategy.float32", "warning")])
        result = self.am_plan("cost", plan)
        self.assertIn("of the fp32 peak", result.out)
        self.assertIn("strategy.float32", result.err)
        self.assertEqual(self.json("cost", plan)["precision"], "fp32")
        half = ["--set", 'model.dtype="bfloat16"']
        self.assertEqual(self.json("cost", plan, *half)["precision"], "bf16")
        self.assertNotIn("strategy.float32", self.am_plan("check", plan, *half).err)

    def test_search_says_which_precision_a_layout_computes_in(self):
        common = ["search", "--model", MODELS / "llama-3.2-1b", "--gpus", "8", "--gpu", "h100-sxm",
                  "--seq-len", "2048", "--top", "3"]
        answer = self.json(*common)
        self.assertEqual({row["precision"] for row in answer["layouts"]}, {"bfloat16"})
        self.assertNotIn("warnings", answer)
        answer = self.json(*common, "--strategy", "ddp")
        self.assertEqual({row["precision"] for row in answer["layouts"]}, {"float32"})
        self.assertIn("float32", answer["warnings"][0])
        result = self.am_plan(*common, "--strategy", "ddp")
        self.assertIn("ddp in float32", result.out)
        self.assertIn("warning: ", result.err)

    def test_sizes_that_no_figure_holds_are_out_of_range(self):
        plan = self.plan(MESH + '[cluster]\ngpu = "h100-sxm"\n', model="llama-3.1-405b")
        sizes = ["--set", f"train.seq_len={2**27}", "--set", f"train.micro_batch_size={2**20}",
                 "--set", "train.global_batch_size=0"]
        for command in ("cost", "memory", "report"):
            extra = ["-o", self.folder / "x.html"] if command == "report" else []
            result = self.am_plan(command, plan, *sizes, *extra, status=1)
            self.assertIn("error[predict.range]", result.err)
            self.assertIn("too large to represent", result.err)

    def test_unknown_gpu_and_implementation(self):
        plan = self.plan(MESH + '[cluster]\ngpu = "h1000"\nimplementation = "megatrom"\n')
        self.assertEqual(self.rules(plan), ["cluster.gpu", "cluster.implementation"])
        self.am_plan("cost", plan, status=1)

    def test_own_gpu(self):
        self.write("mine.toml", "bf16_tflops = 100\nmemory_gib = 79.1\nmemory_tb_per_s = 2\n"
                   "link_gb_per_s = 300\nnic_gbit_per_s = 200\n")
        slow = self.plan(MESH + '[cluster]\ngpu = "./mine.toml"\n')
        fast = self.plan(MESH + '[cluster]\ngpu = "a100-sxm"\n', name="fast.toml")
        self.assertGreater(self.json("cost", slow)["step_seconds"],
                           self.json("cost", fast)["step_seconds"])
        # An architecture selects the efficiencies, so unknown names are refused.
        text = (self.folder / "mine.toml").read_text()
        for name, rules in (("hopper", []), ("tpu", ["plan.value"]), ("Hoper", ["plan.value"])):
            self.write("mine.toml", text + f'architecture = "{name}"\n')
            self.assertEqual(self.rules(slow, status=1 if rules else 0), rules, name)
        self.assertIn("cdna4", self.diagnostics(slow)[0]["help"])
        self.write("mine.toml", "bf16_tflop = 100\n")
        found = self.diagnostics(slow)
        self.assertEqual({item["rule"] for item in found}, {"cluster.key"})
        self.assertTrue(any("did you mean bf16_tflops?" in item["help"] for item in found))

    def test_the_peak_is_one_that_the_gpu_has(self):
        for gpu, peak in (("v100", "fp16 (v100-sxm2 has no bf16)"), ("a100-sxm", "bf16")):
            plan = self.plan(MESH + f'[cluster]\ngpu = "{gpu}"\n')
            text = " ".join(self.am_plan("cost", plan).out.split())
            self.assertIn(f" of the {peak} peak", text)
            self.assertEqual(self.json("cost", plan)["mfu_peak"], peak[:4])

    def test_search_writes_a_plan_that_passes(self):
        answer = self.json("search", "--model", MODELS / "llama-3.1-8b", "--gpus", "8", "--gpu",
                           "h100-sxm", "--top", "3", "--write", self.folder / "best.toml")
        self.assertEqual(len(answer["layouts"]), 3)
        best = answer["layouts"][0]
        self.assertGreaterEqual(answer["considered"], answer["feasible"])
        self.assertEqual(self.diagnostics(self.folder / "best.toml", status=0), [])
        cost = self.json("cost", self.folder / "best.toml")
        self.assertAlmostEqual(cost["step_seconds"], best["step_seconds"], places=9)
        memory = self.json("memory", self.folder / "best.toml")
        self.assertEqual(memory["peak_bytes"], best["peak_bytes"])
        other = self.json("search", "--model", MODELS / "llama-3.1-8b", "--gpus", "8", "--gpu",
                          "h100-sxm", "--implementation", "megatron", "--write",
                          self.folder / "other.toml")["layouts"][0]
        memory = self.json("memory", self.folder / "other.toml")
        self.assertEqual((memory["implementation"], memory["peak_bytes"], memory["fit"]),
                         ("megatron", other["peak_bytes"], "fits"))
        self.assertIn("less", self.am_plan("search", "--model", MODELS / "llama-3.1-8b", "--gpus",
                                           "8").out)

    def test_report_is_one_page_without_links(self):
        page = self.folder / "plan.html"
        plan = self.plan(MESH, model="llama-3.1-70b")
        self.json("report", plan, "-o", page, "--set", "mesh.pp_size=2")
        text = page.read_text()
        self.assertTrue(text.startswith("<!doctype html>") and text.endswith("</html>\n"))
        for part in ("Mesh", "Memory", "Time", "Pipeline", "Shards", "of other layouts"):
            self.assertIn(f"{part}</h2>" if part != "Memory" else "<h2>Memory", text)
        for link in ("<script", "src=", "href=", "@import", "url("):
            self.assertNotIn(link, text)
        self.assertGreaterEqual(text.count("<svg"), 5)
        self.am_plan("report", plan, "-o", "/nonexistent/x.html", status=2)
        said = "(assumed: cluster.gpu is not set)"
        self.assertIn(said, text)
        self.json("report", plan, "-o", page, "--set", "cluster.gpu=h100-sxm", "--force")
        self.assertNotIn(said, page.read_text())

    def test_report_says_how_much_of_a_long_pipeline_it_draws(self):
        plan = self.plan("[mesh]\nworld_size = 40\npp_size = 40\n[train]\nseq_len = 4096\nglobal_batch_size = 40\n",
                         model="llama-3.1-70b")
        page = self.folder / "plan.html"
        self.json("report", plan, "-o", page)
        text = page.read_text()
        self.assertIn("<p>The first 32 of 40 indices.</p>", text)
        self.json("report", plan, "-o", page, "--set", "mesh.pp_size=20", "--force")
        self.assertNotIn("<p>The first", page.read_text())

    @long_search
    def test_search_looks_where_the_rules_allow_it(self):
        def search(model, *more):
            return self.json("search", "--model", MODELS / model, "--gpu", "h100-sxm", *more)
        odd = search("llama-3.1-8b", "--gpus", 8, "--seq-len", 4097)
        self.assertTrue(odd["layouts"])
        cut = [each["plan"] for each in odd["layouts"] if each["plan"]["strategy"].get("sequence_parallel")]
        self.assertTrue(all(plan["mesh"]["cp_size"] > 1 for plan in cut))  # cp pads the sequence
        # GPT-2 has 12 heads. Qwen2.5-1.5B also has 12 heads, but 2 key heads: tp ranks share a key head.
        gpt2 = search("gpt2", "--gpus", 8, "--seq-len", 1024, "--top", 1000)
        sizes = {each["plan"]["mesh"]["tp_size"] for each in gpt2["layouts"]}
        self.assertTrue(4 in sizes and 8 not in sizes, sizes)
        qwen = search("qwen2.5-1.5b", "--gpus", 8, "--seq-len", 1024, "--top", 1000)
        self.assertIn(4, {each["plan"]["mesh"]["tp_size"] for each in qwen["layouts"]})
        tied = search("gemma-2-27b", "--gpus", 64, "--seq-len", 4096, "--global-batch-size", 1024,
                      "--top", 1000)
        self.assertTrue(tied["pareto"])
        sizes = {each["plan"]["mesh"]["pp_size"] for each in tied["layouts"]}
        self.assertIn(2, sizes)  # works with a tied head: the last stage has a copy of the embedding

    def test_search_says_what_am_run_runs(self):
        arguments = ["search", "--model", MODELS / "qwen3-30b-a3b", "--gpus", 64, "--top", 5]
        plan = self.folder / "found.toml"
        answer = self.json(*arguments, "--write", plan)
        self.assertTrue(answer["layouts"])
        self.assertTrue(all(each["runs"] for each in answer["layouts"]))
        self.assertTrue(any(each["plan"]["mesh"].get("ep_size", 1) > 1 for each in answer["layouts"]))
        self.assertNotIn("unsupported", self.json("check", plan)["plans"][0])
        # am-run refuses this model, so am-run can run none of the layouts.
        arguments = ["search", "--model", self.refused_model(), "--gpus", 8, "--top", 5]
        self.assertFalse(any(each["runs"] for each in self.json(*arguments)["layouts"]))
        self.assertIn("runs none of these 5; --runnable shows only", self.am_plan(*arguments).out)
        answer = self.json(*arguments, "--runnable", status=1)
        self.assertEqual(answer["layouts"], [])

    @long_search
    def test_search_holds_sizes_and_headroom(self):
        model = ("--model", MODELS / "mixtral-8x7b-v0.1", "--gpus", "64", "--top", "1000")
        free = self.json("search", *model)
        held = self.json("search", *model, "--tp", "2,4", "--pp", "2", "--cp", "1", "--ep", "4,8")
        meshes = [layout["plan"]["mesh"] for layout in held["layouts"]]
        self.assertTrue(meshes)
        self.assertEqual({mesh["tp_size"] for mesh in meshes}, {2, 4})
        self.assertEqual({mesh["pp_size"] for mesh in meshes}, {2})
        self.assertEqual({mesh["ep_size"] for mesh in meshes}, {4, 8})
        self.assertLess(held["considered"], free["considered"])
        # If the free search lists layouts with these sizes, the fastest of these takes as long as
        # the fastest layout of the restricted search.
        fits = [layout for layout in free["layouts"] if layout["plan"]["mesh"] in meshes]
        if fits:
            self.assertEqual(fits[0]["step_seconds"], held["layouts"][0]["step_seconds"])
        roomy = self.json("search", *model, "--headroom", "0.3")
        largest = max(layout["peak_bytes"] for layout in roomy["layouts"])
        self.assertLess(largest, 0.7 * 80 * 2**30)
        for wrong in (["--tp", "2,x"], ["--pp", "0"], ["--headroom", "1"], ["--headroom", "-0.1"]):
            self.am_plan("search", *model, *wrong, status=2)
        self.am_plan("search", *model[:2], status=2)
        self.am_plan("search", *model, "--min-gpus", status=2)

    @long_search
    def test_search_starts_from_a_plan(self):
        text = MESH + '[cluster]\ngpu = "h100-sxm"\n[optimizer]\nname = "sgd"\n[lora]\nrank = 8\n'
        plan = self.plan(text, model="llama-3.1-70b")
        best = self.folder / "best.toml"
        answer = self.json("search", plan, "--top", "3", "--write", best)
        self.assertEqual(answer["gpus"], 64)
        for layout in answer["layouts"]:
            self.assertEqual(layout["plan"]["optimizer"]["name"], "sgd")
            self.assertEqual(layout["plan"]["lora"]["rank"], 8)
            self.assertEqual(layout["plan"]["train"]["seq_len"], 8192)
            self.assertEqual(layout["plan"]["train"]["global_batch_size"], 128)
        first = answer["layouts"][0]
        self.assertAlmostEqual(self.json("cost", best)["step_seconds"], first["step_seconds"])
        self.assertEqual(self.json("memory", best)["peak_bytes"], first["peak_bytes"])
        # With adapters and sgd, a rank needs less memory than with full training and AdamW.
        full = self.json("search", plan, "--set", "lora.rank=0", "--set", 'optimizer.name="adamw"', "--top", "3")
        self.assertLess(first["peak_bytes"], full["layouts"][0]["peak_bytes"])
        held = self.json("search", plan, "--fix", "mesh.tp_size,train.micro_batch_size", "--top", "50")
        self.assertEqual({layout["plan"]["mesh"]["tp_size"] for layout in held["layouts"]}, {4})
        self.assertEqual({layout["plan"]["train"]["micro_batch_size"] for layout in held["layouts"]}, {1})
        full = ("--fix", "strategy.activation_checkpointing", "--set", 'strategy.activation_checkpointing="full"')
        held = self.json("search", plan, *full, "--top", "50")
        self.assertEqual({layout["plan"]["strategy"]["activation_checkpointing"] for layout in held["layouts"]}, {"full"})
        mlp = ("--fix", "strategy.activation_checkpointing", "--set", 'strategy.activation_checkpointing="mlp"')
        held = self.json("search", plan, *mlp, "--top", "50")
        self.assertEqual({layout["plan"]["strategy"]["activation_checkpointing"] for layout in held["layouts"]}, {"mlp"})
        more = self.json("search", plan, "--gpus", "128", "--top", "1")
        self.assertEqual(more["layouts"][0]["plan"]["mesh"]["world_size"], 128)
        # In the written plan, a relative path stays a relative path, and a model's name stays a
        # name.
        (self.folder / "model").symlink_to(MODELS / "llama-3.2-1b")
        (self.folder / "best").mkdir()
        small = ("--tp", "1", "--pp", "1", "--top", "1", "--write", "best/p.toml", "--force")
        for source, path in ((("--model", "model", "--gpus", "8"), "../model"),
                             (("--model", "llama-3.2-1b", "--gpus", "8"), "llama-3.2-1b")):
            self.am_plan("search", *source, *small, cwd=self.folder)
            self.assertIn(f'path = "{path}"\n', (self.folder / "best/p.toml").read_text())
        for name in ("model", "llama-3.2-1b"):
            self.write("from.toml", f'[model]\npath = "{name}"\n[mesh]\nworld_size = 8\n')
            self.am_plan("search", "from.toml", *small, cwd=self.folder)
            path = "../model" if name == "model" else name
            self.assertIn(f'path = "{path}"\n', (self.folder / "best/p.toml").read_text())
            self.am_plan("check", "best/p.toml", cwd=self.folder)
        error = self.am_plan("search", plan, "--fix", "optimizer.lr", status=2).err
        self.assertIn("mesh.tp_size", error)
        self.am_plan("search", "--gpus", "8", status=2)
        self.am_plan("search", "--model", MODELS / "llama-3.1-8b", "--gpus", "8", "--fix", "mesh.tp_size", status=2)

    def test_a_search_from_a_plan_costs_what_cost_and_memory_say(self):
        text = ('[mesh]\nworld_size = 8\n[cluster]\ngpu = "h100-sxm"\nhours_between_failures = 50000.0\n'
                'storage_gb_per_s = 10.0\n[train]\nseq_len = 2048\nglobal_batch_size = 128\n')
        plan, best = self.plan(text, model="llama-3.2-1b"), self.folder / "best.toml"
        full = ("--set", 'strategy.activation_checkpointing="full"', "--fix", "strategy.activation_checkpointing")
        for arguments in ((), ("--set", 'model.freeze_params=["model.layers.3.*"]'),
                          ("--set", 'optimizer.no_decay=["model.layers.9.*"]'),
                          ("--set", 'strategy.ignored_params=["model.layers.1.*"]'), ("--set", "lora.rank=8"),
                          ("--set", "strategy.activation_checkpointing_every=4", *full),
                          ("--pp", "2"), ("--strategy", "ddp", *full)):
            with self.subTest(arguments=arguments):
                found = self.json("search", plan, *arguments, "--top", "1", "--write", best, "--force")["layouts"][0]
                self.assertAlmostEqual(self.json("cost", best)["step_seconds"], found["step_seconds"])
                self.assertEqual(self.json("memory", best)["peak_bytes"], found["peak_bytes"])
                self.assertEqual(found["plan"]["cluster"]["storage_gb_per_s"], 10.0)

    @long_search
    def test_search_finds_the_smallest_number_of_gpus(self):
        model = ("--model", MODELS / "llama-3.1-70b", "--seq-len", "4096", "--top", "1")
        least = self.json("search", *model, "--min-gpus")
        self.assertTrue(least["layouts"])
        for gpus in (1, 2, 4, *range(8, least["gpus"] + 1, 8)):
            status = 0 if gpus == least["gpus"] else 1
            answer = self.json("search", *model, "--gpus", str(gpus), status=status)
            self.assertEqual(answer.get("enough_gpus", least["gpus"]), least["gpus"])
        text = self.am_plan("search", *model, "--gpus", "8", status=1).out
        self.assertIn(f"With {least['gpus']} GPUs a layout fits.", " ".join(text.split()))

    @long_search
    def test_search_that_finds_nothing(self):
        answer = self.json("search", "--model", MODELS / "llama-3.1-405b", "--gpus", "1", status=1)
        self.assertEqual(answer["layouts"], [])
        text = self.am_plan("search", "--model", MODELS / "llama-3.1-405b", "--gpus", "1", status=1).out
        self.assertIn("1024 sequences of 4096 tokens per step", text)
        self.assertIn("No layout fits", text)

    def test_what_fits_by_formula_alone_is_not_counted_as_fitting(self):
        arguments = ["search", "--model", MODELS / "llama-3.1-405b", "--gpus", 64, "--gpu", "h100-sxm",
                     "--seq-len", 8192]
        answer = self.json(*arguments, status=1)
        self.assertEqual((answer["feasible"], answer["layouts"]), (0, []))
        self.assertEqual(sum(answer["dropped"].values()), answer["considered"])
        self.assertGreater(answer["smallest_bytes"], 60 * 2**30)
        text = self.am_plan(*arguments, status=1).out
        self.assertIn("0 fit", text)
        self.assertIn("the smallest needs", text)

    def test_search_refuses_values_that_no_plan_has(self):
        for option, most in (("--seq-len", 2**27), ("--global-batch-size", 2**30)):
            result = self.am_plan("search", "--model", MODELS / "llama-3.1-8b", "--gpus", 8, option, most + 1, status=2)
            self.assertIn(f'{option}: "{most + 1}" is not an integer from 1 to {most}', result.err)

    def test_built_in_runs_are_what_the_script_makes(self):
        clean = self.folder / "clean.csv"
        done = subprocess.run([SOURCE / "scripts/clean_measurements.py", "-o", clean], capture_output=True,
                              text=True, check=True)
        self.assertIn("703 runs, 567 of them timed", done.stdout)
        self.assertIn("left out 14: fine-tuning", done.stdout)
        self.assertEqual(clean.read_text(), (SOURCE / "plans/measured/runs.csv").read_text())

    def test_a_published_run_of_an_unknown_framework_is_left_out(self):
        with open(SOURCE / "scripts/measurements/runs.csv", newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            runs = [next(rows), next(rows) | {"framework": "mine"}]
        published = self.folder / "mine.csv"
        with open(published, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows.fieldnames)
            writer.writeheader()
            writer.writerows(runs)
        done = subprocess.run([SOURCE / "scripts/clean_measurements.py", published, "-o", self.folder / "clean.csv"],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout,
                         "1 runs, 1 of them timed\n  left out 1: the framework mine is not known\n")

    def test_micro_batches_of_every_built_in_run_make_its_batch(self):
        rows = lambda path: csv.DictReader((SOURCE / path).read_text().splitlines())  # noqa: E731
        published = {row["id"]: row for row in rows("scripts/measurements/runs.csv")}
        compared = 0
        for row in rows("plans/measured/runs.csv"):
            whole = published[row["id"]]["gbs"]
            counted = published[row["id"]]["num_gpus"] or published[row["id"]]["dp"]
            if not whole or not counted:
                continue
            number = lambda column: float(row[column] or 1)  # noqa: E731, B023
            made = (number("micro_batch") * number("micro_batches") * number("dp_replicate") *
                    number("dp_shard"))
            self.assertEqual(made, float(whole), row["id"])
            compared += 1
        self.assertGreater(compared, 500)


if __name__ == "__main__":
    unittest.main()
