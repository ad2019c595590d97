"""am-run init writes plans that pass am-plan check and that am-run trains."""

import itertools
import json
import subprocess
import tomllib
import unittest

from run_support import BIN, SOURCE, RunTest


class Init(RunTest):
    def init(self, *arguments, status=0):
        result = self.am_run("init", *arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def check(self, plan):
        checked = subprocess.run([BIN / "am-plan", "check", plan, "--json"], cwd=self.path, text=True, capture_output=True,
                                 timeout=60)
        return json.loads(checked.stdout)["plans"][0]["diagnostics"]

    def test_each_purpose_passes_check(self):
        for purpose, gpus in itertools.product(("pretrain", "finetune", "lora"), (1, 6, 16)):
            with self.subTest(purpose=purpose, gpus=gpus):
                file = self.path / f"{purpose}-{gpus}.toml"
                self.init("--model", "smollm2-135m", "--gpus", gpus, "--purpose", purpose, "-o", file)
                found = self.check(file)
                # The built-in models have no weights and no tokenizers.
                self.assertEqual({d["rule"] for d in found if d["severity"] == "error"} - {"model.weights"}, set(), found)
                plan = tomllib.loads(file.read_text())
                self.assertEqual(plan["model"]["path"], "smollm2-135m")
                self.assertEqual(plan["mesh"]["world_size"], gpus)
                self.assertEqual("lora" in plan, purpose == "lora")
                self.assertEqual(plan["train"]["global_batch_size"] % gpus, 0)

    def test_a_comment_explains_each_key(self):
        lines = self.init("--model", "llama-3.1-8b", "--gpus", 8).stdout.splitlines()
        keys = [i for i, line in enumerate(lines) if " = " in line and not line.startswith("#")]
        self.assertGreater(len(keys), 10)
        for i in keys:
            self.assertTrue(lines[i - 1].startswith("# "), lines[i])
        self.assertLessEqual(max(map(len, lines)), 130)
        self.assertIn("per GPU", lines[1])

    def test_the_layout_is_the_first_of_search(self):
        self.init("--model", "llama-3.1-8b", "--gpus", 8, "-o", "plan.toml")
        plan = tomllib.loads((self.path / "plan.toml").read_text())
        found = subprocess.run([BIN / "am-plan", "search", "plan.toml", "--gpus", "8", "--runnable", "--json", "--top", "1"],
                               cwd=self.path, text=True, capture_output=True, timeout=60, check=True)
        best = json.loads(found.stdout)["layouts"][0]["plan"]
        for section, key in (("train", "micro_batch_size"), ("mesh", "world_size"), ("train", "global_batch_size")):
            self.assertEqual(plan[section].get(key, 1), best[section][key])

    def test_the_plan_trains(self):
        self.init("--model", "quickstart", "--gpus", 2, "--seq-len", 64, "--data", SOURCE / "LICENSE", "-o", "plan.toml")
        options = ["--set", "data.tokenizer=bytes", "--set", "train.max_steps=3", "--set", "train.global_batch_size=8",
                   "--set", "strategy.backend=gloo", "--set", "train.micro_batch_size=4", "--set", "scheduler.warmup_steps=1"]
        self.train("plan.toml", "run", *options)

    def test_conversations_are_named(self):
        chats = self.path / "chats.jsonl"
        chats.write_text('{"prompt": "1 + 1?", "completion": "2"}\n' * 50)
        self.init("--model", "quickstart", "--gpus", 2, "--purpose", "finetune", "--data", chats, "-o", "plan.toml")
        plan = tomllib.loads((self.path / "plan.toml").read_text())
        self.assertEqual(plan["data"], {"kind": "chat", "path": [str(chats)]})

    def test_paths_follow_the_plan_into_its_folder(self):
        (self.path / "jobs").mkdir()
        (self.path / "text.txt").write_text("a text\n" * 100)
        self.init("--model", "quickstart", "--gpus", 2, "--data", "text.txt", "-o", "jobs/plan.toml")
        plan = tomllib.loads((self.path / "jobs" / "plan.toml").read_text())
        self.assertEqual(plan["data"]["path"], ["../text.txt"])
        self.assertNotIn(str(self.path), (self.path / "jobs" / "plan.toml").read_text())

    def test_absent_data_are_reported(self):
        said = self.init("--model", "quickstart", "--gpus", 2, "--data", "absent.txt", "-o", "plan.toml").stderr
        self.assertIn("warning: absent.txt", said)

    def test_a_schema_beside_the_plan_is_named(self):
        subprocess.run([BIN / "am-plan", "schema", "-o", "plan.schema.json"], cwd=self.path, timeout=60, check=True)
        self.init("--model", "quickstart", "--gpus", 2, "-o", "plan.toml")
        self.assertIn("#:schema ./plan.schema.json\n", (self.path / "plan.toml").read_text())

    def test_errors_name_no_file_that_is_not_there(self):
        for arguments, message in ((("--gpus", 2**20 + 1), "error[plan.range]: mesh.world_size"),
                                   (("--gpus", 8, "--data", ""), "error[plan.value]: data.path.0 is empty")):
            with self.subTest(arguments=arguments):
                said = self.init("--model", "llama-3.1-8b", *arguments, status=1).stderr
                self.assertTrue(said.startswith(message), said)
                self.assertNotIn("plan.toml", said)

    def test_the_name_of_the_file_stays_in_a_comment(self):
        self.init("--model", "quickstart", "--gpus", 2, "-o", "a\n[mesh]\n# b.toml")
        text = (self.path / "a\n[mesh]\n# b.toml").read_text()
        self.assertIn(r"am-plan check $'a\012[mesh]\012# b.toml' ", text)
        self.assertEqual(tomllib.loads(text)["mesh"]["world_size"], 2)

    def test_what_is_refused(self):
        taken = self.path / "taken.toml"
        taken.write_text("# mine\n")
        link = self.path / "link.toml"
        link.symlink_to("absent.toml")
        sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
        (self.path / "config.json").write_text(json.dumps({"model_type": "olmo", **sizes}))
        for arguments, status, message in (
            (("--model", "llama-3.1-9b", "--gpus", 8), 1, 'did you mean "llama-3.1-8b"?'),
            (("--model", "llama-3.1-8b", "--gpus", 8, "--gpu", "h101"), 1, "h100"),
            (("--model", "llama-3.1-70b", "--gpus", 2), 1, "GPUs would be enough"),
            (("--model", "llama-3.1-8b"), 2, "--gpus"),
            (("--model", "llama-3.1-8b", "--gpus", 8, "--seq-len", 2**27 + 1), 2,
             f'"{2**27 + 1}" is not an integer from 1 to {2**27}'),
            (("--model", "llama-3.1-8b", "--gpus", 8, "--purpose", "distil"), 2, "finetune"),
            (("--model", "llama-3.1-8b", "--gpus", 8, "-o", taken), 2, "--force"),
            (("--model", "llama-3.1-8b", "--gpus", 8, "-o", link), 2, "--force"),
            (("--model", ".", "--gpus", 8), 1, 'model_type "olmo" can be planned'),
        ):
            with self.subTest(arguments=arguments):
                self.assertIn(message, self.init(*arguments, status=status).stderr)
        self.assertEqual(taken.read_text(), "# mine\n")
        self.assertTrue(link.is_symlink())


if __name__ == "__main__":
    unittest.main()
