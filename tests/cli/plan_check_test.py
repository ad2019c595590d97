"""am-plan check reports every violated rule, with its place in the plan, in one run."""

import os
import subprocess
import unittest

from cli_support import BIN, SOURCE, PlanCase

GOOD = "[mesh]\nworld_size = 16\ntp_size = 2\n[train]\nglobal_batch_size = 16\n"


class CheckTest(PlanCase):
    def test_what_am_run_does_not_run_is_said(self):
        plan = self.plan("[mesh]\nworld_size = 8\ntp_size = 2\n[strategy]\nenable_async_tensor_parallel = true\n"
                         "sequence_parallel = true\n")
        wanted = ["asynchronous tensor parallelism on GPUs"]
        judged = self.json("check", plan, "--plan-only")["plans"][0]
        self.assertEqual((judged["unsupported"], judged["runs"]), (wanted, False))
        self.assertEqual(self.json("show", plan)["unsupported"], wanted)
        layout_alone = self.am_plan("check", plan, "--plan-only").out
        self.assertIn("am-run does not run it: asynchronous", layout_alone)
        self.assertIn("am-run does not run it: asynchronous", self.am_plan("show", plan).out)
        runs = self.plan("[mesh]\nworld_size = 8\n")
        judged = self.json("check", runs)["plans"][0]
        self.assertNotIn("unsupported", judged)
        self.assertTrue(judged["runs"])
        self.assertNotIn("unsupported", self.json("show", runs))
        other = self.plan("[mesh]\nworld_size = 8\n", model=self.refused_model())
        wanted = ["position biases of attention scores (ALiBi) in bfloat16"]
        judged = self.json("check", other, "--plan-only")["plans"][0]
        self.assertEqual(judged["unsupported"], wanted)

    def test_what_am_run_refuses_is_an_error_of_a_plan_for_it(self):
        text = ("[mesh]\nworld_size = 8\ntp_size = 2\n[strategy]\nname = \"fsdp2\"\n"
                "backend = \"nccl\"\nsequence_parallel = true\nenable_async_tensor_parallel = true\n")
        plan = self.plan(text)
        item = self.diagnostics(plan)[0]
        self.assertEqual((item["rule"], item["severity"], item["line"]),
                         ("runtime.unsupported", "error", 10))
        judged = self.json("check", plan, status=1)["plans"][0]
        self.assertEqual((judged["ok"], judged["runs"]), (False, False))
        self.assertIn("1 error", self.am_plan("check", plan, status=1).out)
        self.assertEqual(self.diagnostics(plan, "--plan-only", status=0), [])
        # With implementation = "torchtitan", am-run's limits are not errors: only the layout is
        # checked.
        other = self.plan(text + "[cluster]\nimplementation = \"torchtitan\"\n")
        judged = self.json("check", other)["plans"][0]
        self.assertEqual((judged["ok"], judged["runs"]), (True, False))
        self.assertEqual(judged["unsupported"], ["asynchronous tensor parallelism on GPUs"])
        # The verdict of another framework does not consider am-run's limits.
        judged = self.json("check", plan, "--dialect", "torchtitan")["plans"][0]
        self.assertNotIn("runs", judged)
        # am-plan still predicts memory and time of the refused plan.
        self.am_plan("memory", plan)
        self.am_plan("cost", plan)
        self.assertIn("--plan-only", self.am_plan("explain", "runtime.unsupported").out)

    def test_findings_for_other_programs(self):
        good = self.plan(GOOD, name="good.toml")
        bad = self.plan("[mesh]\nworld_size = 6\ntp_size = 3\n", name="bad.toml")
        item = self.diagnostics(bad)[0]
        place = f"{bad}:{item['line']}:{item['column']}"
        out = self.am_plan("check", good, bad, "--format", "gcc", status=1).out
        self.assertIn(f"{place}: error: {item['message']} [{item['rule']}]\n{place}: note: {item['help']}\n", out)
        self.assertNotIn("good.toml", out)
        out = self.am_plan("check", good, bad, "--format", "github", status=1).out
        self.assertIn(f"::error file={bad},line={item['line']},col={item['column']},", out)
        log = self.json("check", good, bad, "--format", "sarif", status=1)
        results = log["runs"][0]["results"]
        self.assertEqual([each["ruleId"] for each in results], self.rules(bad))
        place = results[0]["locations"][0]["physicalLocation"]
        self.assertEqual(place["artifactLocation"]["uri"], str(bad))
        self.assertEqual(place["region"]["startLine"], item["line"])
        described = log["runs"][0]["tool"]["driver"]["rules"][results[0]["ruleIndex"]]
        self.assertEqual(described["id"], item["rule"])
        self.assertEqual(self.json("check", bad, "--format", "json", status=1), self.json("check", bad, status=1))
        for format in ("gcc", "github"):
            self.assertEqual(self.am_plan("check", good, "--format", format).out, "")
            self.am_plan("check", self.folder / "absent.toml", "--format", format, status=2)
        self.am_plan("check", good, "--format", "xml", status=2)

    def test_the_action_annotates_lines(self):
        lines = (SOURCE / "scripts" / "action" / "action.yml").read_text().splitlines()
        script = "\n".join(line[8:] for line in lines[lines.index("      run: |") + 1:])
        titan = self.write("titan.toml", "[parallelism]\ntensor_parallel_degree = 3\n")

        def act(files, world_size):
            inputs = {"FILES": files, "FROM": "torchtitan", "MODEL": "llama-3.1-8b", "WORLD_SIZE": world_size, "INSTALL": ""}
            environment = {**os.environ, **inputs, "PATH": f"{BIN}:{os.environ['PATH']}"}
            return subprocess.run(["bash", "-e", "-c", script], cwd=self.folder, env=environment, text=True, capture_output=True,
                                  timeout=60)

        done = act("titan*.toml", "12")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("::error file=titan.toml,line=2,col=26,", done.stdout)
        titan.write_text("[parallelism]\ntensor_parallel_degree = 2\n")
        self.assertEqual(act("titan.toml", "8").returncode, 0)
        self.assertEqual(act("absent*.toml", "8").returncode, 2)

    def test_files_of_other_frameworks_are_checked_where_they_stand(self):
        titan = self.write("titan.toml", "[training]\nseq_len = 2046\nlocal_batch_size = 1\n\n[parallelism]\n"
                           "data_parallel_shard_degree = 4\ntensor_parallel_degree = 3\n")
        options = ("--from", "torchtitan", "--model", "llama-3.1-8b", "--world-size", "12")
        (item,) = [d for d in self.json("check", titan, *options, status=1)["plans"][0]["diagnostics"]
                   if d["rule"] == "torchtitan.heads"]
        self.assertEqual((item["file"], item["line"], item["column"]), (str(titan), 7, 26))
        place = f"{titan}:7:26: error: "
        self.assertIn(place, self.am_plan("check", titan, *options, "--format", "gcc", status=1).out)
        self.assertIn("by the rules of torchtitan",
                      self.am_plan("check", self.write("good.toml", titan.read_text().replace("= 3", "= 2")),
                                   *options[:4], "--world-size", "8").out)
        # Without the model, the rules on heads are not checked, and a note says so.
        out = self.am_plan("check", titan, *options[:2], *options[4:]).out
        self.assertIn("rules that need the model were not checked", out)
        # This recipe names a built-in model, so --model is not needed.
        recipe = self.write("recipe.yaml", "model:\n  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B\n"
                            "distributed:\n  tp_size: 3\nstep_scheduler:\n  global_batch_size: 8\n")
        found = self.json("check", recipe, "--from", "nemo-automodel", "--world-size", "6", status=1)
        lines = {d["line"] for d in found["plans"][0]["diagnostics"] if d["severity"] == "error"}
        self.assertEqual(lines, {4})
        # A file of a framework whose rules are not known is checked by the rules of plans.
        text = '{"zero_optimization": {"stage": 3},\n "train_micro_batch_size_per_gpu": 3, "train_batch_size": 16}\n'
        speed = self.write("ds.json", text)
        found = self.json("check", speed, "--from", "deepspeed", "--world-size", "8", "--model", "llama-3.1-8b", status=1)
        self.assertEqual([d["line"] for d in found["plans"][0]["diagnostics"] if d["severity"] == "error"], [2])
        # For a file of another framework, the answer does not state whether am-run could run it.
        self.assertFalse({"runs", "unsupported"} & set(found["plans"][0]))
        fast = self.write("fast.yaml", "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_version: 2}\n")
        found = self.json("check", fast, "--from", "accelerate", "--world-size", "16", status=1)
        (item,) = [d for d in found["plans"][0]["diagnostics"] if d["severity"] == "error"]
        self.assertEqual((item["rule"], item["line"]), ("mesh.world", 2))
        # A setting that a plan lacks is not an error of the file.
        lost = self.write("lost.toml", titan.read_text().replace("= 3", "= 2") + "[float8]\nenable_float8_linear = true\n")
        self.am_plan("check", lost, *options[:4], "--world-size", "8")

    def test_options_of_other_frameworks_files(self):
        plan = self.plan(GOOD)
        for more in (["--model", "llama-3.1-8b"], ["--from", "torchtitan", "--set", "mesh.tp_size=2"],
                     ["--from", "torchtitan", "--dialect", "torchtitan"], ["--from", "megatron", "--plan-only"],
                     ["--from", "jax"]):
            self.am_plan("check", plan, *more, status=2)
        self.am_plan("check", self.folder / "absent.toml", "--from", "torchtitan", status=2)
        self.am_plan("check", plan, "--from", "torchtitan", status=1)  # not a file of torchtitan

    def test_a_good_plan(self):
        result = self.am_plan("check", self.plan(GOOD))
        self.assertEqual(result.err, "")
        self.assertIn("ok; llama, 8.03 B parameters; 16 ranks = dp_shard 8 × tp 2", result.out)
        self.assertEqual(self.diagnostics(self.plan(GOOD), status=0), [])

    def test_the_plans_that_we_ship(self):
        plans = sorted((SOURCE / "plans").glob("*.toml"))
        self.assertGreater(len(plans), 4)
        answer = self.json("check", *plans)
        for plan in answer["plans"]:
            self.assertEqual(plan["diagnostics"], [], plan["file"])

    def test_a_diagnostic_has_place_message_and_help(self):
        plan = self.plan("[mesh]\nworld_size = 12\ntp_size = 3\n")
        item = [d for d in self.diagnostics(plan) if d["rule"] == "tp.kv_heads"][0]
        self.assertEqual(item, {
            "rule": "tp.kv_heads", "severity": "error", "file": str(plan), "line": 5, "column": 11,
            "message": "tp_size = 3 does not divide num_key_value_heads = 8, and is not a multiple of it",
            "help": "tp_size = 1, 2 or 4"})

    def test_people_get_the_line_with_a_caret(self):
        plan = self.plan("[mesh]\nworld_size = 12\ntp_size = 12\n", model="llama-3.2-3b")
        result = self.am_plan("check", plan, status=1)
        self.assertIn(f"{plan}:5:11: error[tp.kv_heads]: tp_size = 12 does not divide", result.out)
        self.assertIn("    5 | tp_size = 12\n      |           ^^\nhelp: tp_size = 1, 2 or 4\n",
                      result.out)
        self.assertEqual(result.err, "")  # findings and summary are both on stdout, for pagers and files
        self.assertIn("plan.toml: 1 error, 2 warnings", result.out)

    def test_loader_and_rules_report_in_one_run(self):
        plan = self.plan("[mesh]\nworld_size = 48\ntp_size = 3\nep_size = 2\n"
                         "[strategy]\nsequence_parralel = true\n"
                         "[train]\nseq_len = 200000\nmicro_batch_size = \"two\"\n"
                         "[data]\nkind = \"text\"\npath = \"nowhere.txt\"\n[chekpoint]\nevery = 1\n")
        found = self.diagnostics(plan)
        self.assertEqual(
            sorted(d["rule"] for d in found if d["severity"] == "error"),
            sorted(["tp.heads", "tp.kv_heads", "ep.experts", "plan.key", "plan.type", "data.missing",
                    "plan.section"]))
        self.assertEqual([d["rule"] for d in found if d["severity"] == "warning"],
                         ["mesh.tp_node", "tp.ffn", "seq.length"])
        self.assertEqual([d["line"] for d in found], sorted(d["line"] for d in found))

    def test_an_error_does_not_come_twice(self):
        plan = self.plan("[mesh]\nworld_size = \"eight\"\n")
        self.assertEqual(self.rules(plan), ["plan.type"])

    def test_batches_and_sizes(self):
        plan = self.plan("[mesh]\nworld_size = 16\ndp_size = 4\ntp_size = 2\n")
        self.assertEqual(self.rules(plan), ["mesh.product"])
        plan = self.plan("[mesh]\nworld_size = 8\n[train]\nglobal_batch_size = 12\n")
        item = self.diagnostics(plan)[0]
        self.assertEqual((item["rule"], item["help"]),
                         ("batch.divide", "global_batch_size = 8 or 16"))

    def test_overrides(self):
        plan = self.plan(GOOD)
        self.assertEqual(self.rules(plan, "--set", "mesh.tp_size=64"), ["mesh.divide", "tp.heads"])
        self.assertEqual(
            self.rules(plan, "--set", "mesh.tp_size=64", "--set", "mesh.tp_size=4", status=0), [])
        self.assertEqual(self.rules(plan, "--set", "mesh.tp_sise=4"), ["plan.key"])
        self.assertEqual(self.rules(plan, "--set", "mesh.tp_size=-1"), ["plan.range"])

    def test_set_takes_one_word(self):
        result = self.am_plan("check", "--set", "mesh.tp_size=4", self.plan(GOOD))
        self.assertIn("tp 4", result.out)

    def test_a_launchers_world_size(self):
        plan = self.plan("[mesh]\ntp_size = 2\n")
        self.assertEqual(self.rules(plan), ["mesh.world"])
        self.assertEqual(self.rules(plan, "--world-size", 6, status=0), [])
        self.assertEqual(self.rules(plan, "--world-size", 7), ["mesh.divide"])
        self.assertEqual(self.rules(self.plan(GOOD), "--world-size", 8), ["mesh.world"])

    def test_several_plans(self):
        good = self.plan(GOOD, name="good.toml")
        bad = self.plan("[mesh]\nworld_size = 3\ntp_size = 2\n", name="bad.toml")
        answer = self.json("check", good, bad, status=1)
        self.assertEqual([(p["file"], p["ok"]) for p in answer["plans"]],
                         [(str(good), True), (str(bad), False)])

    def test_a_missing_model(self):
        plan = self.write("plan.toml", '[model]\npath = "nowhere"\n[mesh]\nworld_size = 1\n')
        item = self.diagnostics(plan)[0]
        self.assertEqual((item["rule"], item["line"]), ("model.path", 2))
        self.assertIn(str(self.folder / "nowhere"), item["message"])

    def test_a_broken_config_is_reported_in_its_own_file(self):
        config = self.write("model/config.json", '{\n "model_type": "llama",\n "hidden_size": "x"\n}\n')
        plan = self.write("plan.toml", '[model]\npath = "model"\n[mesh]\nworld_size = 1\n')
        found = self.diagnostics(plan)
        self.assertEqual({d["file"] for d in found}, {str(config)})
        self.assertEqual(sorted(d["rule"] for d in found),
                         ["model.key"] * 4 + ["model.type"])
        self.assertIn(3, [d["line"] for d in found])

    def test_ddp_refuses_tensor_parallelism(self):
        plan = self.plan("[mesh]\nworld_size = 4\ntp_size = 2\n[strategy]\nname = \"ddp\"\n")
        item = self.diagnostics(plan)[0]
        self.assertEqual(item["rule"], "tp.strategy")
        self.assertIn("ddp does not support tensor parallelism", item["message"])

    def test_a_key_of_another_strategy(self):
        plan = self.plan("[mesh]\nworld_size = 4\n[strategy]\nname = \"ddp\"\nmp_policy = {}\n")
        item = self.diagnostics(plan)[0]
        self.assertEqual(item["rule"], "plan.key")
        self.assertIn("fsdp2", item["message"] + item["help"])

    def test_tp_plans_of_ones_own(self):
        head = "[mesh]\nworld_size = 2\ntp_size = 2\n[strategy]\n"
        self.write("tp.toml", '"model.layers.*.mlp.up_porj" = "colwise"\n"lm_head" = "colwize"\n')
        found = self.diagnostics(self.plan(head + 'tp_plan = "tp.toml"\n'))
        self.assertEqual([(d["rule"], d["file"], d["line"]) for d in found],
                         [("tp.style", str(self.folder / "tp.toml"), 2)])
        self.write("tp.toml", '"model.layers.*.mlp.up_porj" = "colwise"\n')
        found = self.diagnostics(self.plan(head + 'tp_plan = "tp.toml"\n'))
        self.assertEqual([(d["rule"], d["line"]) for d in found], [("tp.pattern", 1)])
        self.assertIn("model.layers.*.mlp.up_proj", found[0]["help"])
        self.assertEqual(self.rules(self.plan(head + 'tp_plan = "absent.toml"\n')), ["tp.plan"])
        inline = 'tp_plan = { "model.layers.*.mlp.up_proj" = "colwise" }\n'
        self.assertEqual(set(self.rules(self.plan(head + inline))), {"tp.pair"})


class DialectTest(PlanCase):
    """--dialect NAME checks the plan by the rules of another framework."""

    WIDE = "[mesh]\nworld_size = 16\ntp_size = 16\nranks_per_node = 16\n"  # 16 tp ranks share eight key/value heads

    def test_each_judges_by_its_own_rules(self):
        plan = self.plan(self.WIDE)
        self.assertEqual(self.rules(plan, status=0), [])
        self.assertEqual(self.rules(plan, "--dialect", "torchtitan"), ["torchtitan.kv_heads"])
        self.assertEqual(self.rules(plan, "--dialect", "nemo-automodel"), ["nemo-automodel.kv_heads"])
        self.assertEqual(self.rules(plan, "--dialect", "megatron", status=0), [])
        plan = self.plan("[mesh]\nworld_size = 3\npp_size = 3\n[train]\nglobal_batch_size = 3\n")
        self.assertEqual(self.rules(plan, "--dialect", "torchtitan", status=0), [])
        self.assertEqual(self.rules(plan, "--dialect", "megatron"), ["megatron.layers"])

    def test_the_framework_s_own_condition_and_legal_values(self):
        plan = self.plan("[mesh]\nworld_size = 4\ncp_size = 2\ntp_size = 2\n"
                         "[strategy]\nsequence_parallel = true\n[train]\nseq_len = 1004\n")
        item = self.diagnostics(plan, "--dialect", "torchtitan")[0]
        self.assertEqual((item["rule"], item["line"], item["help"]),
                         ("torchtitan.seq_len", 10, "seq_len = 1000 or 1008"))
        self.assertIn("seq_len % ((tp if sequence parallel) * (2 * cp if cp > 1)) == 0",
                      item["message"])

    def test_all_violations_and_the_files_own(self):
        plan = self.plan("[mesh]\nworld_size = 10\ntp_size = 3\nep_sise = 2\n"
                         "[train]\nseq_len = 200000\n")
        answer = self.json("check", plan, "--dialect", "megatron", status=1)
        self.assertEqual(answer["dialect"], "megatron")
        found = answer["plans"][0]["diagnostics"]
        self.assertEqual(
            sorted(d["rule"] for d in found),
            ["megatron.expert_world", "megatron.ffn", "megatron.heads", "megatron.hidden",
             "megatron.positions", "megatron.query_groups", "megatron.world_size", "plan.key"])

    def test_in_words(self):
        result = self.am_plan("check", self.plan(self.WIDE), "--dialect", "megatron")
        self.assertIn("ok by the rules of megatron", result.out)
        result = self.am_plan("check", self.plan(self.WIDE), "--dialect", "torchtitan", status=1)
        self.assertIn("error[torchtitan.kv_heads]", result.out)
        self.assertIn("help: tp_size = 1, 2, 4 or 8", result.out)

    def test_a_launchers_world_size_and_none(self):
        plan = self.plan("[mesh]\ntp_size = 2\n")
        for dialect in ("torchtitan", "megatron", "nemo-automodel"):
            with self.subTest(dialect):
                self.assertEqual(self.rules(plan, "--dialect", dialect), ["mesh.world"])
                self.assertEqual(
                    self.rules(plan, "--dialect", dialect, "--world-size", 6, status=0), [])
                self.assertEqual(self.rules(plan, "--dialect", dialect, "--world-size", 7),
                                 [f"{dialect}.world_size"] +
                                 ["megatron.expert_world"] * (dialect == "megatron"))

    def test_an_unknown_dialect(self):
        result = self.am_plan("check", self.plan(self.WIDE), "--dialect", "deepspeed", status=2)
        self.assertIn("torchtitan", result.err)

    def test_the_catalogue_explains_them(self):
        listed = {rule["id"] for rule in self.json("rules")["rules"]}
        for rule in ("torchtitan.world_size", "megatron.layers", "nemo-automodel.idle_ranks"):
            self.assertIn(rule, listed)
            self.assertIn(rule, self.am_plan("explain", rule).out)


class BadFilesTest(PlanCase):
    def test_files_that_cannot_be_read(self):
        for path in (self.folder / "absent.toml", self.folder):
            answer = self.json("check", path, status=2)
            item = answer["plans"][0]["diagnostics"][0]
            self.assertEqual((item["file"], item["line"], item["column"]), (str(path), None, None))
            result = self.am_plan("check", path, status=2)
            self.assertEqual(result.err.count(str(path)), 1)
            self.assertNotIn("terminate", result.err)

    def test_a_file_of_a_similar_name_is_named(self):
        self.plan(GOOD)
        for wrong in ("plan.tom", "plann.toml"):
            result = self.am_plan("check", wrong, status=2, cwd=self.folder)
            self.assertIn("did you mean plan.toml?", result.out + result.err)

    def test_other_plans_are_checked_all_the_same(self):
        answer = self.json("check", self.folder / "absent.toml", self.plan(GOOD), status=2)
        self.assertEqual([p["ok"] for p in answer["plans"]], [False, True])

    def test_what_is_no_plan(self):
        for name, data in {"binary": b"\x00\x01\xff\xfe" * 100, "text": b"hello, world",
                           "json": b'{"model": 1}', "zeros": b"\x00" * 5000,
                           "open": b"[model\npath = 1", "quote": b'[model]\npath = "x'}.items():
            with self.subTest(name):
                self.assertEqual(self.rules(self.write("plan.toml", data)), ["plan.syntax"])
        self.assertEqual(self.rules(self.write("plan.toml", b"")), ["plan.required", "mesh.world"])

    def test_letters_outside_of_quotes(self):
        for text in ("[mesh]¹\n", "[mesh]\nworldē_size = 8\n", "[mesh]\ntp_size = ２\n"):
            with self.subTest(text):
                self.assertEqual(self.rules(self.write("plan.toml", text)), ["plan.syntax"])
        plan = self.plan('# für alle ¹\n[data]\nkind = "text"\npath = ["ü\\"¹", \'é"ü\', """a\nü"""]\n'
                         "[mesh]\nworld_size = 1\n")
        self.assertEqual(self.rules(plan), ["data.missing"] * 3)
        plan.write_text("\ufeff" + plan.read_text())
        self.assertEqual(self.rules(plan), ["data.missing"] * 3)

    def test_control_characters_do_not_reach_the_terminal(self):
        plan = self.write("plan.toml", b'[model]\npath = "\\u001b[31mred"\n"\x1b[2J" = 1\n')
        result = self.am_plan("check", plan, status=1)
        self.assertNotIn("\x1b", result.err + result.out)

    def test_characters_that_reorder_a_line_do_not_reach_the_terminal(self):
        plan = self.write("plan.toml", '[model]\npath = "\u202eabc\u2066\u009b31m"\n[mesh]\nworld_size = 1\n')
        for arguments in (["check", plan], ["memory", plan], ["check", plan, "--json"],
                          ["check", "\u202enone"], ["model", "\u202enone"], ["model", "\u202enone", "--json"]):
            status = 1 if plan in arguments else 2
            result = self.am_plan(*arguments, status=status)
            self.assertFalse(set("\u202e\u2066\u009b\x1b") & set(result.out + result.err), result)
        message = self.json("model", "\u202enone", status=2)["diagnostics"][0]["message"]
        self.assertIn("\u202enone", message)  # --json contains the name unchanged

    def test_what_never_ends_is_refused_by_its_kind(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        (self.folder / "piped").mkdir()
        os.mkfifo(self.folder / "piped" / "config.json")
        for path, kind in ((pipe, "a pipe"), ("/dev/zero", "a device"), (self.folder, "a folder")):
            result = self.am_plan("check", path, status=2, timeout=60)
            self.assertRegex(result.err, f"{path}: (error\\[plan.file\\]: )?cannot read: it is {kind}")
            result = self.am_plan("import", path, "--from", "deepspeed", status=2, timeout=60)
            self.assertRegex(result.err, f"{path}: (error\\[plan.file\\]: )?cannot read: it is {kind}")
        for path, kind in (("/dev/zero", "a device"), ("piped", "a pipe")):
            plan = self.write("plan.toml", f'[model]\npath = "{path}"\n[mesh]\nworld_size = 1\n')
            item = self.diagnostics(plan)[0]
            self.assertEqual((item["rule"], item["line"]), ("model.path", 2))
            self.assertIn(f"cannot read: it is {kind}", item["message"])

    def test_thousands_of_errors_are_counted_and_long_words_cut(self):
        plan = self.write("plan.toml", "[mesh]\n" + "".join(f"k{i} = 1\n" for i in range(3000)))
        out = self.am_plan("check", plan, status=1).out
        self.assertEqual(out.count("error["), 100)
        self.assertIn("\nand 2902 more, among them 2902 errors\n", out)
        self.assertEqual(len(self.rules(plan)), 3002)
        plan = self.write("plan.toml", f'[model]\npath = "{"x" * 5000000}"\n[mesh]\nworld_size = 1\n')
        self.assertLess(len(self.am_plan("check", plan, status=1).out), 10000)

    def test_huge_values(self):
        plan = self.plan("[mesh]\nworld_size = 8\n")
        for override in ("mesh.tp_size=9223372036854775807", "mesh.world_size=99999999999",
                         "mesh.dp_size=1048577", "train.seq_len=9223372036854775807",
                         "mesh.tp_size=0", "mesh.tp_size=1.5", "mesh.tp_size=true"):
            with self.subTest(override):
                self.assertTrue(set(self.rules(plan, "--set", override)) &
                                {"plan.range", "plan.type"})
        many = ["--set", "mesh.tp_size=1048576", "--set", "mesh.pp_size=1048576",
                "--set", "mesh.cp_size=1048576", "--set", "mesh.dp_size=1048576"]
        self.assertEqual(self.rules(plan, *many), ["mesh.size"])

    def test_a_model_of_absurd_sizes(self):
        config = ('{"model_type": "llama", "vocab_size": 4611686018427387904, "hidden_size": 4096,'
                  ' "intermediate_size": 1, "num_hidden_layers": 99999999, "num_attention_heads": 1}')
        self.write("model/config.json", config)
        plan = self.write("plan.toml", '[model]\npath = "model"\n[mesh]\nworld_size = 1\n')
        self.assertEqual(self.rules(plan), ["model.value", "model.value"])


if __name__ == "__main__":
    unittest.main()
