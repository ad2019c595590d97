"""Fine-tuning, from conversations to answers: adapters are trained on 300 sums, and the exported
model answers questions about these sums."""

import json
import os
import random
import subprocess
import sys
import unittest

from cli_support import run_tool
from run_support import RunTest

PYTHON = os.environ.get("AM_PYTHON", sys.executable)  # if it has transformers, transformers' answers are compared too
IN_TRANSFORMERS = """
import json, sys, torch, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
answers = []
for question in json.loads(sys.argv[2]):
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=True)
    whole = model.generate(**prompt, max_new_tokens=10, do_sample=False, pad_token_id=0)
    answers.append(whole[0, prompt["input_ids"].shape[1]:].tolist())
print(json.dumps(answers))
"""
SPECIAL = ("<pad>", "<s>", "</s>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}<|user|>{{ m['content'] }}"
    "{% else %}<|assistant|>{{ m['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}")
PLAN = """
[model]
path = "model"
seed = 1
[mesh]
world_size = 2
[strategy]
name = "fsdp2"
mp_policy = { param_dtype = "none", reduce_dtype = "none", output_dtype = "none" }
[lora]
rank = 64
alpha = 64
target_modules = ["all-linear"]
merge = true
[train]
seq_len = 64
micro_batch_size = 8
global_batch_size = 16
epochs = 150
[optimizer]
lr = 8e-3
weight_decay = 0.0
[scheduler]
name = "cosine"
warmup_steps = 20
[data]
kind = "chat"
path = "sums.jsonl"
[checkpoint]
export = "hf"
[metrics]
every = 100
"""


class SumsTest(RunTest):
    def write_model(self):
        """Writes a small Llama without weights, with a tokenizer of single characters and a chat template."""
        folder = self.path / "model"
        folder.mkdir()
        vocabulary = {token: number for number, token in enumerate((*SPECIAL, *"0123456789+=? "))}
        config = {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(vocabulary),
            "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
            "initializer_range": 0.1, "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": False,
            "bos_token_id": 1, "eos_token_id": 2, "dtype": "float32"}
        added = [{"id": vocabulary[token], "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                  "normalized": False, "special": True} for token in SPECIAL]
        tokenizer = {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False},
            "post_processor": None, "decoder": {"type": "Fuse"},
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<pad>"}}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        (folder / "chat_template.jinja").write_text(TEMPLATE)
        (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))

    def test_adapters_learn_three_hundred_sums(self):
        self.write_model()
        sums = [(a, b) for a in range(20) for b in range(15)]
        random.Random(0).shuffle(sums)
        (self.path / "sums.jsonl").write_text("".join(json.dumps({"messages": [
            {"role": "user", "content": f"{a}+{b}=?"}, {"role": "assistant", "content": str(a + b)}]}) + "\n"
            for a, b in sums))
        log = self.train(self.write_plan(PLAN), "run").stderr
        # Only the tokens of the answers and their end tokens are labels.
        labels = sum(len(str(a + b)) + 1 for a, b in sums)
        self.assertIn(f"300 examples, 3 495 tokens, {labels} labels in ", log)
        lines = self.metrics("run")
        self.assertEqual(lines[-1]["epoch"], 150.0)
        self.assertLess(lines[-1]["loss"], 0.2)
        export = next((self.path / "run/export").iterdir())
        self.assertEqual({"chat_template.jinja", "tokenizer.json", "tokenizer_config.json", "config.json"}
                         - {file.name for file in export.iterdir()}, set())
        asked = sums[:12]
        commands = "; ".join(f'generate "{a}+{b}=?" --chat --temperature 0 --tokens 10' for a, b in asked)
        answers = [self.answers(target, commands) for target in (export, self.path / "run")]
        self.assertEqual(answers[0], answers[1])  # exported with merged adapters, and the run itself
        right = sum(answer["text"] == str(a + b) for answer, (a, b) in zip(answers[0], asked, strict=True))
        self.assertGreaterEqual(right, 11)
        self.assertTrue(all(answer["ended"] and answer["tokens"][-1] == 2 for answer in answers[0]))
        self.assertEqual(answers[0][0]["prompt"], f"<s><|user|>{asked[0][0]}+{asked[0][1]}=?<|assistant|>")
        if subprocess.run([PYTHON, "-c", "import torch, transformers"], capture_output=True).returncode == 0:
            asked_in_python = subprocess.run(
                [PYTHON, "-c", IN_TRANSFORMERS, export, json.dumps([f"{a}+{b}=?" for a, b in asked])],
                capture_output=True, text=True, check=True)
            self.assertEqual(json.loads(asked_in_python.stdout), [answer["tokens"] for answer in answers[0]])

    def answers(self, target, commands):
        result = run_tool("am-repl", target, "--json", "-c", commands, cwd=self.path)
        self.assertEqual(result.status, 0, result.err)
        return [{key: answer[key] for key in ("prompt", "text", "tokens", "ended")}
                for answer in result.json["results"]]


if __name__ == "__main__":
    unittest.main()
