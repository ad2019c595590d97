"""Training data and length of a job: epochs, mixtures, prepared and compressed text, the model's
own tokenizer, and the checkpoints that are kept."""

import gzip
import json
import os
import shutil
import subprocess
import unittest

from run_support import BIN, DATA, RunTest

TOKENIZER = DATA / "tokenizers" / "gpt2.json"


def plan_text(data, model=DATA / "loop" / "model", train="max_steps = 4", more="", mesh="world_size = 1"):
    return f"""
[model]
path = "{model}"
dtype = "float32"
[mesh]
{mesh}
[strategy]
name = "fsdp2"
mp_policy = {{ param_dtype = "float32", reduce_dtype = "float32", output_dtype = "float32" }}
[train]
seq_len = 16
micro_batch_size = 1
global_batch_size = 4
{train}
[optimizer]
lr = 1e-2
[data]
{data}
{more}
"""


TOKENS = f'kind = "tokens"\npath = "{DATA}/loop/tokens.bin"\n'


class DataTest(RunTest):
    def run_plan(self, name, *arguments, status=0, **plan):
        """Trains a plan in the run folder `name`. Returns stderr and the lines of metrics.jsonl."""
        result = self.am_run(self.write_plan(plan_text(**plan), f"{name}.toml"), "--run-dir", name, *arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr, self.metrics(name)

    def losses(self, lines):
        return [line["loss"] for line in lines]

    def write_tokens(self, name, samples, first):
        """Writes a token file that begins with the id `first` and contains `samples` samples of 16
        tokens, and one more token as the last label."""
        values = [(first + 3 * i) % 60 for i in range(16 * samples + 1)]
        (self.path / name).write_bytes(b"".join(value.to_bytes(2, "little") for value in values))

    # ---- length ------------------------------------------------------------------------------------

    def test_two_epochs_end_with_the_data(self):
        self.write_tokens("t.bin", 7, 5)
        data = 'kind = "tokens"\npath = "t.bin"\n'
        _, lines = self.run_plan("run", data=data, train="epochs = 2")
        self.assertEqual(len(lines), 4)  # 14 samples, 4 a step
        self.assertEqual([line["epoch"] for line in lines], [4 / 7, 8 / 7, 12 / 7, 2.0])
        # The last step has two samples instead of four. Under every layout, the loss of this step is
        # the mean over its two samples.
        _, two = self.run_plan("two", data=data, train="epochs = 2", mesh="world_size = 2")
        for one, other in zip(lines, two, strict=True):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-5)
            self.assertAlmostEqual(one["grad_norm"], other["grad_norm"], delta=1e-4)
        again, _ = self.run_plan("run", data=data, train="epochs = 2")
        self.assertIn("nothing to do: step 4 of 4 is done", again)
        _, longer = self.run_plan("run", data=data, train="epochs = 2\nmax_steps = 3", status=0)
        self.assertEqual(len(longer), 4)

    def test_max_tokens_is_not_exceeded(self):
        _, lines = self.run_plan("run", data=TOKENS, train="max_tokens = 200")
        self.assertEqual([line["tokens"] for line in lines], [64, 64, 64])

    def test_max_time_saves_and_stops(self):
        train = 'max_steps = 1000000\nmax_time = "3s"'
        log, lines = self.run_plan("run", "--stopped-status", "75", data=TOKENS, train=train, status=75)
        self.assertIn("train.max_time has passed", log)
        step = lines[-1]["step"]
        self.assertLess(step, 1000000)
        self.assertTrue((self.path / f"run/checkpoints/step-{step}/checkpoint.json").exists())
        self.assertEqual(os.readlink(self.path / "run/latest"), f"checkpoints/step-{step}")
        log, _ = self.run_plan("run", data=TOKENS, train=f"max_steps = {step + 1}")
        self.assertIn(f"step {step}\n", log)

    def test_patience_ends_training_and_the_best_checkpoint_stays(self):
        validation = f'[validation]\nevery = 2\nsteps = 0\npath = "{self.path}/v.bin"\npatience = 2\n'
        checkpoint = '[checkpoint]\nevery = 2\nkeep = 1\nkeep_best = 1\nexport = "hf"\nexport_every = 4\n'
        self.write_tokens("v.bin", 3, 1)
        log, lines = self.run_plan("run", "--set", "optimizer.lr=0.3", data=TOKENS, train="max_steps = 60",
                                   more=validation + checkpoint)
        self.assertIn("; 48 labels in 1 batch\n", log)  # each of the three samples is read once
        losses = {line["step"]: line["validation_loss"] for line in lines if "validation_loss" in line}
        best = min(losses, key=losses.get)
        last = lines[-1]["step"]
        self.assertEqual(last, best + 4, losses)
        self.assertIn("2 validations found no lower loss", log)
        left = {folder.name for folder in (self.path / "run/checkpoints").iterdir()}
        self.assertEqual(left, {f"step-{best}", f"step-{last}"})
        self.assertEqual(os.readlink(self.path / "run/best"), f"checkpoints/step-{best}")
        exported = {folder.name for folder in (self.path / "run/export").iterdir()}
        self.assertLessEqual({f"step-{step}" for step in range(4, last + 1, 4)}, exported)
        self.assertIn(f"step-{last}", exported)
        log, lines = self.run_plan("run", "--set", "optimizer.lr=0.3", data=TOKENS, train="max_steps = 60",
                                   more=validation + checkpoint)
        self.assertEqual(lines[-1]["step"], last)  # the checkpoint stores that patience ended training

    def test_a_trial_shorter_than_the_warm_up(self):
        more = "[scheduler]\nname = \"cosine\"\nwarmup_steps = 100\n"
        log, lines = self.run_plan("run", "--steps", "2", data=TOKENS, train="max_steps = 500", more=more)
        self.assertEqual(len(lines), 2)
        self.assertIn("warning[scheduler.warmup]", log)

    def test_grown_data_are_told_from_changed_data(self):
        self.write_tokens("t.bin", 20, 5)
        data = 'kind = "tokens"\npath = "t.bin"\n'
        self.run_plan("run", data=data, train="max_steps = 2")
        self.write_tokens("t.bin", 30, 5)
        log, _ = self.run_plan("run", data=data, train="max_steps = 3", status=1)
        self.assertIn("the data: 321 tokens in the checkpoint's run, and 160 more at their end in this job", log)
        self.assertNotIn("fingerprint", log)
        self.write_tokens("t.bin", 30, 6)
        log, _ = self.run_plan("run", data=data, train="max_steps = 3", status=1)
        self.assertIn("data.fingerprint: ", log)

    # ---- mixtures ----------------------------------------------------------------------------------

    def test_a_mixture_goes_on_exactly_under_another_layout(self):
        self.write_tokens("a.bin", 9, 5)
        self.write_tokens("b.bin", 40, 11)
        chats = [{"input_ids": [(7 * n + 3 * i) % 60 for i in range(5 + n)],
                  "labels": [-100] * 3 + [(7 * n + 3 * i) % 60 for i in range(3, 5 + n)]} for n in range(9)]
        (self.path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in chats))
        data = """tokenizer = "bytes"
[[data.source]]
path = "a.bin"
kind = "tokens"
weight = 0.5
epochs = 2
[[data.source]]
path = "b.bin"
kind = "tokens"
weight = 0.3
[[data.source]]
path = "c.jsonl"
kind = "chat"
weight = 0.2
"""
        log, whole = self.run_plan("whole", data=data, train="max_steps = 12")
        self.assertIn("50.0 % tokens: ", log)
        self.run_plan("parts", data=data, train="max_steps = 5")
        self.run_plan("parts", data=data, train="max_steps = 8", mesh="world_size = 2")
        _, parts = self.run_plan("parts", data=data, train="max_steps = 12", mesh="world_size = 2\ntp_size = 2")
        self.assertEqual([line["epochs"] for line in parts], [line["epochs"] for line in whole])
        self.assertEqual(whole[-1]["epochs"][0], 2.0)  # 18 samples of the first source, which is then left out
        for one, other in zip(whole, parts, strict=True):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-4)
        changed = data.replace("0.3", "0.4")
        result = self.am_run(self.write_plan(plan_text(data=changed, train="max_steps = 13")), "--run-dir", "whole")
        self.assertEqual(result.returncode, 1)
        self.assertIn("data.source", result.stderr)

    # ---- text --------------------------------------------------------------------------------------

    def folder_of_model(self, tokenizer=True):
        """Copies the loop model's folder without weights, and returns the copy. Its config has a
        vocabulary of 1000 tokens. If `tokenizer`, the copy contains a tokenizer.json, whose
        vocabulary is smaller."""
        folder = self.path / "model"
        shutil.copytree(DATA / "loop" / "model", folder)
        config = json.loads((folder / "config.json").read_text())
        config["vocab_size"] = 1000
        (folder / "config.json").write_text(json.dumps(config))
        for weights in folder.glob("*.safetensors"):
            weights.unlink()
        if tokenizer:
            shutil.copy(TOKENIZER, folder / "tokenizer.json")
        return folder

    def write_text(self):
        lines = [json.dumps({"text": f"This is document {n}, with some words in it."}) for n in range(60)]
        text = ("\n".join(lines) + "\n").encode()
        (self.path / "text.jsonl").write_bytes(text)
        (self.path / "text.jsonl.gz").write_bytes(gzip.compress(text))
        (self.path / "text.json").write_text("[" + ",\n".join(lines) + "]")
        return 'kind = "text"\npath = "text.jsonl"\neod_token = 0\n'

    def test_the_tokenizer_is_the_models_own(self):
        model = self.folder_of_model()
        data = self.write_text()
        log, auto = self.run_plan("auto", data=data, model=model, more='[checkpoint]\nexport = "hf"\n')
        self.assertIn(f"({model}/tokenizer.json)", log)
        named, lines = self.run_plan("named", data=data + f'tokenizer = "{TOKENIZER}"\n', model=model)
        self.assertEqual(self.losses(auto), self.losses(lines))
        exported = self.path / "auto/export/step-4/tokenizer.json"
        self.assertEqual(exported.read_bytes(), TOKENIZER.read_bytes())
        read, lines = self.run_plan("bytes", data=data + 'tokenizer = "bytes"\n', model=model)
        self.assertIn("tokens (bytes)", read)
        # The exported folder contains weights. A note is printed if the data's tokenizer differs
        # from the folder's, if the folder has no tokenizer, or if the data are synthetic.
        folder = exported.parent
        (self.path / "other").mkdir()
        shutil.copy(DATA / "tokenizers" / "smollm.json", self.path / "other/tokenizer.json")
        log, _ = self.run_plan("again", data=data + 'tokenizer = "other"\n', model=folder)
        self.assertIn("loaded from", log)
        self.assertIn("the plan's tokenizer differs from the model's own", log)
        exported.unlink()
        for other in folder.glob("*tokenizer*"):
            other.unlink()
        log, _ = self.run_plan("none", data=data, model=folder)
        self.assertIn("weights are loaded, but the model's folder has no tokenizer", log)
        log, _ = self.run_plan("synthetic", data="", model=folder)
        self.assertIn("the model's weights are loaded, but the data are synthetic", log)

    def test_prepared_and_compressed_text_have_the_same_tokens(self):
        model = self.folder_of_model()
        data = self.write_text()
        _, plain = self.run_plan("plain", data=data, model=model)
        for name in ("text.jsonl.gz", "text.json"):
            _, other = self.run_plan(f"run-{name}", data=data.replace("text.jsonl", name), model=model)
            self.assertEqual(self.losses(other), self.losses(plain), name)
        validation = '[validation]\nevery = 2\npath = "text.json"\n'
        plan = self.write_plan(plan_text(data=data, model=model, more=validation), "prepare.toml")
        said = self.json_of_command("prepare", plan)
        self.assertEqual([each["documents"] for each in said["prepared"]], [60, 60])
        self.assertEqual([each["was_there"] for each in said["prepared"]], [False, False])
        log, prepared = self.run_plan("prepared", data=data, model=model)
        self.assertIn("; from ", log)
        self.assertEqual(self.losses(prepared), self.losses(plain))
        self.assertEqual([each["was_there"] for each in self.json_of_command("prepare", plan)["prepared"]],
                         [True, True])
        # A run resumes although its data were prepared after its start.
        _, lines = self.run_plan("run-text.json", data=data.replace("text.jsonl", "text.json"), model=model,
                                 train="max_steps = 5")
        self.assertEqual(len(lines), 5)
        none = self.write_plan(plan_text(data=TOKENS), "none.toml")
        result = self.am_run("prepare", none)
        self.assertEqual(result.returncode, 1)
        self.assertIn("the plan has no data to tokenise", result.stderr)

    def test_parquet_files_give_the_losses_of_json_lines(self):
        model = self.folder_of_model()
        (model / "chat_template.jinja").write_text(
            "{% for m in messages %}<|{{ m.role }}|>{{ m.content or m.tool_calls | tojson }}<|end|>{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")
        tables = DATA / "parquet"
        for kind, source, train in (("text", "text", "max_steps = 4"), ("chat", "chat", "max_steps = 4\nseq_len = 512"),
                                    ("chat", "ids", "max_steps = 4")):
            with self.subTest(source):
                data = f'kind = "{kind}"\npath = "{tables}/{source}.jsonl"\neod_token = 0\n'
                logs, losses = [], []
                for name in (f"{source}.jsonl", f"{source}-snappy.parquet"):
                    text = plan_text(data=data.replace(f"{source}.jsonl", name), model=model, train=train)
                    if "seq_len = 512" in text:
                        text = text.replace("seq_len = 16\n", "")
                    plan = self.write_plan(text, f"{name}.toml")
                    result = self.am_run(plan, "--run-dir", name)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    line = next(line for line in result.stderr.split("\n") if line.startswith("data "))
                    logs.append(line.replace(name, ""))
                    losses.append(self.losses(self.metrics(name)))
                    batch = self.json_of_command("show-batch", plan)
                    losses[-1].append(batch["rows"])
                self.assertEqual(logs[0], logs[1])
                self.assertEqual(losses[0], losses[1])
        # A run resumes with prepared tokens of another file, because that file has the same
        # documents.
        plan = self.write_plan(plan_text(data=f'kind = "text"\npath = "{tables}/text-zstd.parquet"\neod_token = 0\n',
                                         model=model, train="max_steps = 6"), "prepared.toml")
        said = self.json_of_command("prepare", plan)
        self.assertEqual([each["documents"] for each in said["prepared"]], [37])
        result = self.am_run(plan, "--run-dir", "text.jsonl")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("; from ", result.stderr)
        self.assertEqual([line["step"] for line in self.metrics("text.jsonl")], [1, 2, 3, 4, 5, 6])
        data = f'kind = "text"\npath = "{tables}/ids-snappy.parquet"\n'
        refused = self.am_run("show-batch", self.write_plan(plan_text(data=data, model=model), "no.toml"))
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn('ids-snappy.parquet:1: "text" is missing or not a string', refused.stderr)

    def json_of_command(self, *arguments):
        result = self.am_run(*arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_a_batch_can_be_seen(self):
        chats = [{"prompt": f"What is {n}?", "completion": f" {n}!"} for n in range(9)]
        (self.path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in chats))
        model = self.folder_of_model()
        plan = self.write_plan(plan_text(data='kind = "chat"\npath = "c.jsonl"\nshuffle = false\n', model=model))
        text = self.am_run("show-batch", plan, "--rows", "1").stdout
        self.assertIn("row 0: sample 0, ", text)
        self.assertIn('    loss  " 0!"\n', text)
        self.assertIn('          "What is 0?"\n', text)
        said = self.json_of_command("show-batch", plan, "--step", "2", "--rows", "9")
        self.assertEqual(said["step"], 2)
        self.assertEqual(len(said["rows"]), 4)
        row = said["rows"][0]
        self.assertEqual({len(row[key]) for key in ("inputs", "labels", "positions")}, {16})
        ids = self.am_run("show-batch", self.write_plan(plan_text(data=TOKENS), "t.toml")).stdout
        self.assertRegex(ids, r"\n    loss  \d+( \d+){15}\n")

    # ---- groups of parameters ----------------------------------------------------------------------

    def test_groups_of_parameters(self):
        group = '[[optimizer.group]]\nmatch = "*embed*"\nlr = 0.0\n'
        self.run_plan("run", data=TOKENS, train="max_steps = 5", more=group + "[checkpoint]\nevery = 1\n")
        changed = self.changed("run/checkpoints/step-1", "run/checkpoints/step-5")
        self.assertEqual(changed.pop("model.embed_tokens.weight", 0.0), 0.0)
        self.assertGreater(len(changed), 15)
        self.assertGreater(min(changed.values()), 0.0)

    def changed(self, before, after):
        """Returns the largest change of each parameter between two checkpoints."""
        result = subprocess.run([BIN / "am-repl", after, "--json", "-c", f"diff {self.path / before}"],
                                capture_output=True, text=True, cwd=self.path, check=False)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        return {each["name"]: each.get("max_abs", 0.0) for each in json.loads(result.stdout)["results"][0]["parameters"]}


if __name__ == "__main__":
    unittest.main()
