"""Weights with the names and layouts of other tools: wrappers ("module."), other root names,
indexes, adapters; and complete exports."""

import json
import re
import shutil
import unittest

from cli_support import run_tool
from run_support import DATA, RunTest, plan_text, read_safetensors, write_safetensors

LLAMA = DATA / "hf" / "llama"
TEXT = "loss '12 34 56 12'"  # its bytes are token ids of both models


class WeightsTest(RunTest):
    def ask(self, target, script=TEXT, status=0):
        result = run_tool("am-repl", target, "-c", script, env={"OMP_NUM_THREADS": "1"})
        self.assertEqual(result.status, status, result)
        return result

    def assert_fails(self, result, status, *texts):
        self.assertEqual(result.returncode, status, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)

    def loss(self, target):
        return re.search(r"loss ([0-9.]+)", self.ask(target).out).group(1)

    def folder_with(self, name, tensors):
        folder = self.path / name
        folder.mkdir()
        shutil.copy(LLAMA / "config.json", folder)
        write_safetensors(folder / "model.safetensors", tensors)
        return folder

    def test_wrappers_are_taken_off_safetensors(self):
        expected = self.loss(LLAMA)
        tensors = read_safetensors(LLAMA / "model.safetensors")
        for i, rename in enumerate((
                lambda name: "module." + name,
                lambda name: "_orig_mod." + name,
                lambda name: "module._orig_mod." + name,
                lambda name: name.replace(".mlp.", "._checkpoint_wrapped_module.mlp."),
                lambda name: "policy.net." + name)):
            folder = self.folder_with(f"wrapped-{i}", {rename(name): each for name, each in tensors.items()})
            self.assertEqual(self.loss(folder), expected, folder)
            result = self.am_run(self.write_plan(
                plan_text(steps=1).replace(f"{DATA}/loop/model", str(folder))), "--run-dir", self.path / f"run-{i}")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("loaded from", result.stderr)

    def test_exports_have_the_names_of_the_model(self):
        tensors = read_safetensors(LLAMA / "model.safetensors")
        folder = self.folder_with("prefixed", {f"policy.net.{name}": each for name, each in tensors.items()})
        out = self.path / "out"
        self.ask(folder, f"export {out}")
        self.assertEqual(read_safetensors(out / "model.safetensors"), tensors)

    def test_two_models_in_one_file_are_named(self):
        tensors = read_safetensors(LLAMA / "model.safetensors")
        both = {f"{one}.{name}": each for one in ("student", "teacher") for name, each in tensors.items()}
        result = self.ask(self.folder_with("both", both), status=1)
        self.assertIn('with two prefixes, "student." and "teacher."', result.err)

    def test_an_index_may_name_a_tensor_that_nobody_needs(self):
        folder = self.path / "model"
        shutil.copytree(DATA / "hf" / "llama-sharded", folder)
        file = folder / "model.safetensors.index.json"
        index = json.loads(file.read_text())
        last = sorted(index["weight_map"].values())[-1]
        index["weight_map"]["mtp.fc.weight"] = last
        # The index may name a shard in a subfolder of the model's folder.
        (folder / "more").mkdir()
        (folder / last).rename(folder / "more" / last)
        index["weight_map"] = {name: f"more/{each}" if each == last else each for name, each in index["weight_map"].items()}
        file.write_text(json.dumps(index))
        self.assertEqual(self.loss(folder), self.loss(DATA / "hf" / "llama-sharded"))
        plan = self.write_plan(plan_text(steps=1).replace(f"{DATA}/loop/model", str(folder)))
        result = self.am_run(plan, "--run-dir", self.path / "run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"loaded from .* \(model.safetensors.index.json says that mtp.fc.weight is in more/")
        # A missing parameter is still an error.
        tensors = read_safetensors(folder / "more" / last)
        gone = sorted(tensors)[0]
        write_safetensors(folder / "more" / last, {name: each for name, each in tensors.items() if name != gone})
        result = self.am_run(plan, "--run-dir", self.path / "run-2")
        self.assert_fails(result, 2, f"{gone} is missing")
        for outside in ("../x.safetensors", "/etc/x.safetensors", "more/../../x.safetensors", "more/", "."):
            index["weight_map"]["mtp.fc.weight"] = outside
            file.write_text(json.dumps(index))
            self.assertIn("does not name a file inside this folder", self.ask(folder, status=2).err)

    def test_exports_have_the_tokenizer(self):
        source = self.path / "source"
        shutil.copytree(LLAMA, source)
        (source / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "decoder": {"type": "ByteLevel"}, "post_processor": None,
            "model": {"type": "BPE", "vocab": self.byte_vocabulary(), "merges": [["1", "2"]]}}))
        for name in ("tokenizer_config.json", "generation_config.json", "special_tokens_map.json"):
            (source / name).write_text("{}")
        (source / "chat_template.jinja").write_text("{{ messages }}")
        wanted = {"tokenizer.json", "tokenizer_config.json", "generation_config.json", "special_tokens_map.json",
                  "chat_template.jinja", "config.json"}
        self.assertNotEqual(self.loss(source), self.loss(LLAMA))  # the merge changes the result
        for form in ("hf", "dcp"):
            out = self.path / f"export-{form}"
            self.ask(source, f"export {out} --format {form}")
            self.assertLessEqual(wanted, {each.name for each in out.iterdir()})
            self.assertEqual(self.loss(out), self.loss(source))
        # The plan of a run names a tokenizer that is not in the model's folder. Exports of this run
        # contain the plan's tokenizer.
        tokenizer = self.path / "tokens" / "tokenizer.json"
        tokenizer.parent.mkdir()
        shutil.copy(source / "tokenizer.json", tokenizer)
        text = self.path / "text.txt"
        text.write_text("12 34 56 78 90 " * 200)
        plan = plan_text('[checkpoint]\nexport = "hf"', steps=1).replace(
            'kind = "tokens"', f'kind = "text"\ntokenizer = "{tokenizer}"').replace(f"{DATA}/loop/tokens.bin", str(text))
        result = self.am_run(self.write_plan(plan), "--run-dir", self.path / "run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.path / "run" / "export" / "step-1" / "tokenizer.json").is_file())
        self.ask(self.path / "run", f"export {self.path / 'rest'}")
        self.assertTrue((self.path / "rest" / "tokenizer.json").is_file())

    @staticmethod
    def byte_vocabulary():
        """Returns a byte-level BPE vocabulary: the letters of the 256 bytes with their bytes as
        ids, except that the merge "12" has the id of `?`, and `?` has the id 256."""
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        letters, more = {}, 0
        for byte in range(256):
            letters[byte] = chr(byte) if byte in printable else chr(256 + more)
            more += byte not in printable
        return {letter: byte for byte, letter in letters.items()} | {"12": ord("?"), "?": 256}

    def test_a_run_with_adapters_is_asked(self):
        plan = self.write_plan(plan_text('[lora]\nrank = 2\nalpha = 4\ntarget_modules = ["q_proj"]', steps=2))
        result = self.am_run(plan, "--run-dir", self.path / "run")
        self.assertEqual(result.returncode, 0, result.stderr)
        loss = self.loss(self.path / "run")
        # The trained adapters change the loss. (Untrained adapters would not, because their matrix B
        # is 0.)
        self.assertNotEqual(loss, self.loss(DATA / "loop" / "model"))
        exported = self.path / "merged"
        merged = self.write_plan(plan_text(
            '[lora]\nrank = 2\nalpha = 4\ntarget_modules = ["q_proj"]\nmerge = true\n[checkpoint]\nexport = "hf"', steps=2))
        result = self.am_run(merged, "--run-dir", exported)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.loss(exported / "export" / "step-2"), loss)
        # am-repl exports a checkpoint's adapters as am-run does: merged into the weights, or in
        # PEFT's format.
        checkpoint = self.path / "run" / "checkpoints" / "step-2"
        self.export(checkpoint, self.path / "rested", "--merge")
        self.assertEqual((self.path / "rested/model.safetensors").read_bytes(),
                         (exported / "export/step-2/model.safetensors").read_bytes())
        self.export(checkpoint, self.path / "apart")
        config = json.loads((self.path / "apart/adapter_config.json").read_text())
        self.assertEqual((config["r"], config["lora_alpha"], config["target_modules"]), (2, 4.0, ["q_proj"]))
        result = self.am_run(merged, "--run-dir", self.path / "exported", "--set", "lora.merge=false")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.path / "apart/adapter_model.safetensors").read_bytes(),
                         (self.path / "exported/export/step-2/adapter_model.safetensors").read_bytes())

    def export(self, source, folder, *options):
        result = run_tool("am-repl", source, "-c", " ".join(["export", str(folder), *options]))
        self.assertEqual(result.status, 0, result.err)

    def test_resume_of_what_is_no_checkpoint_names_the_way(self):
        plan = self.write_plan(plan_text(steps=1))
        dcp = DATA / "dcp" / "fsdp2"
        result = self.am_run(plan, "--run-dir", self.path / "run", "--resume", dcp)
        self.assert_fails(result, 2, "fsdp2 is a checkpoint of another program", "does not fit the model")
        result = self.am_run(plan, "--run-dir", self.path / "run")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.am_run(plan, "--run-dir", self.path / "run-2", "--resume", self.path / "run")
        self.assert_fails(result, 1, "this folder contains checkpoints, but is not one of them", "step-N")


if __name__ == "__main__":
    unittest.main()
