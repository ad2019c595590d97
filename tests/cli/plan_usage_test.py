"""am-plan as a command-line tool: its help, exit statuses, colours, speed and linked libraries."""

import json
import os
import re
import shutil
import subprocess
import unittest

from cli_support import BIN, SOURCE, PlanCase

COMMANDS = ["check", "show", "model", "shards", "tp", "memory", "rules", "explain", "schema", "lsp"]
GOOD = "[mesh]\nworld_size = 4\ntp_size = 2\n"


def libraries():
    """Returns the names of the libraries that am-plan links, without the addresses that ldd prints."""
    listed = subprocess.run(["ldd", BIN / "am-plan"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines()]


class UsageTest(PlanCase):
    def test_help_shows_an_example_everywhere(self):
        overview = self.am_plan("--help").out
        for command in COMMANDS:
            self.assertIn(f"  {command} ", overview)
            result = self.am_plan(command, "--help")
            self.assertIn(f"Example:\n  am-plan {command}", result.out)
            self.assertEqual(result.err, "")

    def test_no_line_is_wider_than_the_terminal(self):
        plan = SOURCE / "plans" / "llama-3.1-405b-512gpu.toml"
        cluster = ("--set", 'cluster.gpu="h100-sxm"')
        search = ("search", "--model", SOURCE / "plans/models/llama-3.1-70b", "--gpus", "64")
        wide = []
        for columns in (80, 100):
            for arguments in [("check", plan), ("show", plan), ("cost", plan, *cluster),
                              ("memory", plan, *cluster), ("tp", plan), ("shards", plan), search,
                              ("rules",), ("model", SOURCE / "plans/models/deepseek-v3")]:
                result = self.am_plan(*arguments, env={"COLUMNS": str(columns)})
                wide += [(columns, arguments[0], line) for line in result.out.splitlines()
                         if len(line) > columns]
        self.assertEqual(wide, [])

    def test_version(self):
        self.assertRegex(self.am_plan("--version").out, r"^am-plan \d+\.\d+\.\d+\n$")

    def test_wrong_lines_are_status_2_with_a_suggestion(self):
        plan = self.plan(GOOD)
        for arguments, said in [
                (["chek", plan], "did you mean check?"),
                (["check", plan, "--jsn"], "did you mean --json?"),
                (["check", "--hlep"], "did you mean --help?"),
                (["--hlep"], "did you mean --help?"),
                (["check", plan, "--colour", "never"], "did you mean --color?"),
                (["memory", plan, "--rnak=1"], "did you mean --rank?"),
                (["explain", "tp.hed"], "did you mean tp.heads?"),
                (["costs", plan], "commands: check, show,"),
                ([], "commands: check, show,"),
                (["check"], "am-plan check --help"),
                (["show", plan, plan], "am-plan show --help"),
                (["check", plan, "--set"], "--set"),
                (["check", plan, "--set", "tp_size"], "section.key=value"),
                (["check", plan, "--world-size", "many"], "not an integer of at least 1"),
                (["check", plan, "--world-size", "0"], "not an integer of at least 1"),
                (["shards", plan, "--rank", "-1"], "not an integer of at least 0"),
                (["check", plan, "--color", "pink"], "--color"),
                (["search", "--model", "llama-3.1-8b", "--gpus", "8", "--precision", "bf16,delayed"],
                 "am-run does not run \"delayed\""),
        ]:
            with self.subTest(arguments):
                result = self.am_plan(*arguments, status=2)
                self.assertIn(said, result.err)

    def test_an_unknown_option_is_named_though_it_has_a_value(self):
        plan = self.plan(GOOD)
        for arguments, said in [
                (["cost", plan, "--dialect", "megatron"], "unknown option --dialect"),
                (["memory", plan, "--precision", "fp8"], "unknown option --precision"),
                (["show", "--nonsense", "3", plan], "unknown option --nonsense"),
                (["search", "--tpp", "8", "--gpus", "8"], "unknown option --tpp"),
                (["tp", plan, "--nonsense=3"], "unknown option --nonsense"),
                (["--nonsense", "3", "check", plan], "unknown option --nonsense"),
                (["check", plan, "--set", "mesh.tp_size=2", "--frm", "x"], "unknown option --frm"),
        ]:
            with self.subTest(arguments):
                self.assertIn(said, self.am_plan(*arguments, status=2).err)
        owner = self.am_plan("cost", plan, "--dialect", "megatron", status=2).err
        self.assertIn("help: commands with this option: check", owner)
        # A value that begins with a dash still belongs to its option.
        self.assertIn("not an integer", self.am_plan("shards", plan, "--rank", "-1", status=2).err)

    def test_colour_only_when_asked_for(self):
        plan = self.plan("[mesh]\nworld_size = 4\ntp_size = 3\n")
        self.assertNotIn("\x1b", self.am_plan("check", plan, status=1).out)
        coloured = self.am_plan("check", plan, "--color", "always", status=1)
        self.assertIn("\x1b[", coloured.out)
        self.assertIn("\x1b[", self.am_plan("--color", "always", "check", plan, status=1).out)
        self.assertNotIn("\x1b", self.am_plan("check", plan, "--color=never", status=1).out)

    def test_json_is_one_object_even_when_things_go_wrong(self):
        plan = self.plan(GOOD)
        absent = self.folder / "absent"
        for arguments, status in [(["check", absent], 2), (["show", absent], 2),
                                  (["model", absent], 2), (["shards", plan, "--rank", "9"], 2),
                                  (["tp", absent], 2), (["memory", absent], 2),
                                  (["explain", "nothing"], 2)]:
            with self.subTest(arguments):
                answer = self.json(*arguments, status=status)
                self.assertTrue(answer.get("diagnostics") or answer.get("plans"))

    def test_a_wrong_line_has_its_object_too(self):
        plan = self.plan(GOOD)
        for arguments in (["chek", plan], ["check", plan, "--jsn"], ["memory", plan, "--rank", "x"],
                          ["check"], []):
            with self.subTest(arguments):
                result = self.am_plan(*arguments, "--json", status=2)
                self.assertFalse(result.json["ok"])
                self.assertEqual([item["rule"] for item in result.json["diagnostics"]], ["usage"])
                self.assertIn("am-plan: error: ", result.err)
                self.assertEqual(self.am_plan(*arguments, status=2).out, "")

    def test_a_plan_that_cannot_be_read_is_one_rule_of_every_command(self):
        missing = self.folder / "none.toml"
        for command in ("show", "shards", "tp", "memory", "cost", "schedule"):
            with self.subTest(command):
                found = self.json(command, missing, status=2)["diagnostics"]
                self.assertEqual([(item["rule"], item["file"]) for item in found],
                                 [("plan.file", str(missing))])
        found = self.json("check", missing, status=2)["plans"][0]["diagnostics"]
        self.assertEqual(found[0]["rule"], "plan.file")

    def test_a_full_disk_is_noticed(self):
        with open("/dev/full", "w") as full:
            process = subprocess.run([BIN / "am-plan", "rules"], stdout=full,
                                     stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn("standard output", process.stderr)

    def test_rules_and_their_explanations(self):
        rules = self.json("rules")["rules"]
        self.assertGreater(len(rules), 40)
        for rule in rules:
            answer = self.json("explain", rule["id"])
            self.assertEqual(answer["summary"], rule["summary"])
            self.assertGreater(len(answer["explain"]), 80)
        text = self.am_plan("explain", "tp.kv_heads").out
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_every_rule_that_is_reported_is_in_the_catalogue(self):
        known = {rule["id"] for rule in self.json("rules")["rules"]}
        reported = re.compile(r'(?:error|warning)\(\s*"([a-z]+\.[a-z_]+)"')
        for folder in ("lib", "apps"):
            for path in sorted((SOURCE / folder).rglob("*.cpp")):
                for rule in reported.findall(path.read_text()):
                    self.assertIn(rule, known, path)

    def test_plans_of_this_repository_name_the_schema(self):
        """plans/plan.schema.json is what `am-plan schema` prints; AM_RECORD=1 writes it."""
        file = SOURCE / "plans" / "plan.schema.json"
        schema = self.am_plan("schema").out
        if os.environ.get("AM_RECORD"):
            file.write_text(schema)
        self.assertEqual(file.read_text(), schema)
        for plan in (SOURCE / "plans").glob("*.toml"):
            if "[model]" in plan.read_text():
                self.assertEqual(plan.read_text().splitlines()[0], "#:schema ./plan.schema.json", plan)

    def test_the_schema_names_gpus_and_implementations(self):
        properties = json.loads(self.am_plan("schema").out)["properties"]["cluster"]["properties"]
        self.assertIn("h100-sxm", properties["gpu"]["anyOf"][0]["enum"])
        self.assertIn({"type": "string"}, properties["gpu"]["anyOf"])
        self.assertIn("megatron", properties["implementation"]["enum"])

    def test_written_plans_name_a_schema_beside_them(self):
        search = ["search", "--model", "llama-3.1-8b", "--gpus", 8, "--top", 1, "--write"]
        plan = self.folder / "plan.toml"
        self.am_plan(*search, plan)
        self.assertNotIn("#:schema", plan.read_text())
        self.am_plan("schema", "-o", self.folder / "plan.schema.json")
        self.am_plan(*search, plan, "--force")
        self.assertEqual(plan.read_text().splitlines()[0], "#:schema ./plan.schema.json")
        self.am_plan("check", plan)

    def test_the_schema_knows_every_section(self):
        schema = json.loads(self.am_plan("schema").out)
        self.assertIn("$schema", schema)
        for section in ("model", "mesh", "strategy", "pipeline", "train", "optimizer", "scheduler",
                        "data", "checkpoint", "metrics", "cluster"):
            self.assertIn(section, schema["properties"])
        self.assertIn("tp_size", self.am_plan("schema", "--markdown").out)

    @unittest.skipUnless(shutil.which("ldd"), "ldd is not there")
    def test_it_links_no_libtorch(self):
        linked = libraries()
        self.assertIn("libc.so.6", linked)
        for name in ("torch", "c10", "cuda", "nccl"):
            self.assertFalse([library for library in linked if name in library], linked)


if __name__ == "__main__":
    unittest.main()
