"""`generate --temperature 0` gives the same tokens as transformers' generate(), for every family
(scripts/fixtures/make_greedy.py)."""

import json
import subprocess
import unittest

from cli_support import BIN, SOURCE

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


if __name__ == "__main__":
    unittest.main()
