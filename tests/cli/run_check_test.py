"""am-run --dry-run accepts exactly the plans that am-plan check accepts. The plans are drawn at
random from the keys of the schema."""

import json
import random
import subprocess
import unittest

from run_support import BIN, DATA, RunTest

FAMILIES = ["llama", "mixtral", "qwen3_moe", "gemma2", "gpt2", "falcon-rw", "deepseek_v3", "gpt_oss",
            "phi3-longrope", "qwen2"]
# Keys that are not drawn: strategy.name, which plan() writes itself; optimizer.name, autocast_dtype
# and export; and keys whose values are paths, names, globs, lists or tables, for which value()
# draws nothing anyway.
LEFT_OUT = {"name", "tp_plan", "autocast_dtype", "shard_placement", "ignored_params", "path", "weights",
            "target_modules", "split_points", "dir", "resume", "no_decay", "freeze_params", "export"}


class Draw:
    def __init__(self, schema, seed):
        self.random = random.Random(seed)
        self.sections = schema["properties"]

    def value(self, kind):
        """Draws a value that the JSON schema `kind` allows. Returns None for strings, lists and
        tables."""
        if "enum" in kind:
            return self.random.choice(kind["enum"])
        if "anyOf" in kind:
            return self.value(self.random.choice(kind["anyOf"]))
        if kind.get("type") == "boolean":
            return self.random.random() < 0.5
        if kind.get("type") == "integer":
            return max(kind.get("minimum", 0), self.random.choice([0, 1, 2, 4]))
        if kind.get("type") == "number":
            return max(kind.get("minimum", 0.0), self.random.choice([0.0, 0.01, 0.5]))
        return None

    def keys(self, section, share):
        lines = []
        for key, kind in self.sections[section]["properties"].items():
            if key in LEFT_OUT or self.random.random() > share:
                continue
            value = self.value(kind)
            if value is not None:
                lines.append(f"{key} = {json.dumps(value)}")
        return lines

    def plan(self):
        pick = self.random.choice
        sizes = {"pp_size": pick([1, 1, 1, 2]), "cp_size": pick([1, 1, 1, 2]), "tp_size": pick([1, 1, 2]),
                 "dp_replicate_size": pick([1, 1, 2])}
        world = pick([1, 2])
        for size in sizes.values():
            world *= size
        sizes["ep_size"] = pick([1, 1, 1, 2])
        lines = ["[model]", f'path = "{DATA}/hf/{pick(FAMILIES)}"', 'weights = "none"', "[mesh]",
                 f"world_size = {world}"]
        lines += [f"{key} = {size}" for key, size in sizes.items() if size > 1]
        lines += ["[strategy]", f'name = "{pick(["fsdp2", "fsdp2", "megatron_fsdp", "ddp"])}"']
        lines += self.keys("strategy", pick([0.0, 0.05, 0.2]))
        if sizes["pp_size"] > 1:
            lines += ["[pipeline]", *self.keys("pipeline", 0.5)]
        if sizes["cp_size"] > 1:
            lines += ["[context]", *self.keys("context", 0.5)]
        for section in ("experts", "lora", "optimizer", "metrics", "checkpoint"):
            lines += [f"[{section}]", *self.keys(section, pick([0.0, 0.0, 0.3]))]
        lines += ["[train]", "seq_len = 16", "max_steps = 1", "[data]", 'kind = "synthetic"']
        return "\n".join(lines) + "\n"


class CheckedPlansRun(RunTest):
    WANTED = 12  # number of plans of each verdict that am-run must confirm

    def judged(self, plan):
        done = subprocess.run([BIN / "am-plan", "check", plan, "--json"], capture_output=True, text=True)
        return done.returncode, json.loads(done.stdout)["plans"][0]

    def test_status_0_means_that_am_run_starts(self):
        schema = json.loads(subprocess.run([BIN / "am-plan", "schema"], capture_output=True,
                                           check=True, text=True).stdout)
        draw = Draw(schema, 11)
        passed = refused = 0
        unsupported = 0
        for _ in range(4000):
            if passed >= self.WANTED and refused >= self.WANTED and unsupported >= 2:
                break
            plan = self.write_plan(draw.plan())
            status, verdict = self.judged(plan)
            self.assertEqual(verdict["runs"], status == 0)
            rules = {each["rule"] for each in verdict["diagnostics"] if each["severity"] == "error"}
            limited = rules == {"runtime.unsupported"}
            if status == 0 and passed < self.WANTED:
                passed += 1
                started = self.am_run(plan, "--dry-run", "--json")
                self.assertEqual(started.returncode, 0, started.stderr + plan.read_text())
            elif (limited and unsupported < 2) or (status == 1 and refused < self.WANTED):
                unsupported += limited
                refused += 1
                started = self.am_run(plan, "--dry-run", "--json")
                self.assertEqual(started.returncode, 1, started.stderr + plan.read_text())
                said = {each["rule"] for each in json.loads(started.stdout)["diagnostics"]
                        if each["severity"] == "error"}
                self.assertEqual(said, rules)
        self.assertEqual((passed, refused >= self.WANTED, unsupported), (self.WANTED, True, 2))


class WrongOptions(RunTest):
    def assert_said(self, said, *arguments):
        done = subprocess.run([BIN / "am-run", *arguments], capture_output=True, text=True, timeout=60)
        with self.subTest(arguments):
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.split("\n")[0], f"{said}")

    def test_an_unknown_option_is_named_though_it_has_a_value(self):
        plan = self.path / "plan.toml"  # the file need not exist
        unknown = "am-run: error: unknown option --frobnicate"
        self.assert_said(unknown, plan, "--frobnicate=3")
        self.assert_said(unknown, plan, "--frobnicate", "3")
        self.assert_said(unknown, "--frobnicate", "3", plan)
        self.assert_said(unknown, plan, "--steps", "3", "--frobnicate=3", "--dry-run")
        self.assert_said("am-run: error: unknown option -Z", "-Z", "3", plan)
        self.assert_said("am-run doctor: error: unknown option --frobnicate", "doctor", "--frobnicate=3")
        done = subprocess.run([BIN / "am-run", plan, "--frobnicate=3", "--json"], capture_output=True, text=True)
        self.assertEqual(json.loads(done.stdout)["diagnostics"][0]["message"], "unknown option --frobnicate")

    def test_a_number_that_is_none_is_said_in_words(self):
        plan = self.path / "plan.toml"
        for option, low in (("--rank", 0), ("--nproc", 1), ("--nnodes", 1), ("--node-rank", 0), ("--steps", 1),
                            ("--max-restarts", 0), ("--timeout", 1)):
            for value in (str(low - 1), "1.5", "many"):
                self.assert_said(f'am-run: error: {option}: "{value}" is not an integer of at least {low}',
                                 plan, "--dry-run", option, value)


if __name__ == "__main__":
    unittest.main()
