"""`generate --temperature 0` gives the same tokens as transformers' generate(), for every family
(scripts/fixtures/make_greedy.py)."""

import json
import subprocess
import unittest

from cli_support import BIN, SOURCE, run_tool

DATA = SOURCE / "tests" / "data"
GREEDY = json.loads((DATA / "greedy.json").read_text())


class GenerateTest(unittest.TestCase):
    def test_the_likeliest_tokens_are_transformers(self):
        families = set()
        for name, recorded in GREEDY.items():
            with self.subTest(name):
                families.add(json.loads((DATA / "hf" / name / "config.json").read_text())["model_type"])
                command = f'generate "{recorded["prompt"]}" --temperature 0 --tokens {len(recorded["tokens"])}'
                done = subprocess.run([BIN / "am-repl", DATA / "hf" / name, "--json", "-c", command], capture_output=True,
                                      text=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(json.loads(done.stdout)["results"][0]["tokens"], recorded["tokens"])
        self.assertGreaterEqual(len(families), 10)

    def test_the_answer_is_separated_from_the_prompt(self):
        shown = run_tool("am-repl", DATA / "hf" / "llama", "-c", 'generate "ABC" --temperature 0 --tokens 3').out
        self.assertTrue(shown.startswith("ABC▸"), shown)

    def test_a_small_top_p_leaves_the_likeliest_token(self):
        recorded = GREEDY["llama"]
        text = f'generate "{recorded["prompt"]}" --temperature 1 --tokens {len(recorded["tokens"])}'
        result = run_tool("am-repl", DATA / "hf" / "llama", "--json", "-c", f"{text} --top-p 0.0001; {text}")
        narrow, free = [answer["tokens"] for answer in result.json["results"]]
        self.assertEqual(narrow, recorded["tokens"])
        self.assertNotEqual(free, recorded["tokens"])


if __name__ == "__main__":
    unittest.main()
