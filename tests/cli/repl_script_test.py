"""am-repl on checkpoints: scripts of commands, JSON answers, exit statuses and wrong input."""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from answer_schema import check_answers

BIN = Path(os.environ["AM_BIN_DIR"])
HF = Path(os.environ["AM_SOURCE_DIR"]) / "tests" / "data" / "hf"


class ReplTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="am-repl-test-")
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        self.model = self.path / "llama"
        self.model.mkdir()
        for name in ("config.json", "model.safetensors"):
            shutil.copy(HF / "llama" / name, self.model / name)

    def repl(self, *arguments, stdin="", **more):
        return subprocess.run(
            [BIN / "am-repl", *map(str, arguments)],
            input=stdin, capture_output=True, text=True, timeout=60, **more)

    def results(self, *arguments, status=0, stdin=""):
        done = self.repl(*arguments, "--json", stdin=stdin)
        self.assertEqual(done.returncode, status, done.stderr)
        return check_answers(done.stdout)["results"]

    def assert_fails(self, done, status, *texts):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertNotIn("terminate called", done.stderr)


class ScriptTest(ReplTest):
    def test_commands_of_an_option(self):
        ls, show, stats = self.results(
            self.model, "-c", "ls *norm.weight; show model.norm.weight\nstats lm_head.weight")
        self.assertEqual([ls["command"], show["command"], stats["command"]], ["ls", "show", "stats"])
        self.assertEqual(show["shards"], [{"rank": 0, "offset": [0], "shape": [32]}])
        self.assertEqual(stats["stats"][0]["numel"], 97 * 32)
        self.assertTrue(all(result["ok"] for result in (ls, show, stats)))

    def test_standard_input_has_no_prompt_and_no_control_characters(self):
        done = self.repl(self.model, stdin="info\nmesh\ntree\nunshard all\nmemory\nhelp\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("llama", done.stdout)
        self.assertNotIn(">", done.stdout.split("\n")[0])
        self.assertNotIn("\x1b", done.stdout)

    def test_a_script_file(self):
        script = self.path / "commands"
        script.write_text("# a comment\nloss 'ABC\nDEF'\n")
        done = self.repl(self.model, "-f", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("loss "))

    def test_a_script_file_names_the_line_that_fails(self):
        script = self.path / "commands"
        script.write_text("ls lm_head\n\nshow \\\n  lm_head.weight\nloss 'AB\nCD'; shwo x\n")
        done = self.repl(self.model, "-f", script)
        self.assert_fails(done, 1, f"{script}:6: `shwo x`: there is no command `shwo`")
        self.assertIn("[97, 32]", done.stdout)

    def test_stops_at_the_first_error(self):
        results = self.results(self.model, "-c", "info; sohw x; ls", status=1)
        self.assertEqual([result["ok"] for result in results], [True, False])
        self.assertIn("sohw", results[1]["error"]["message"])
        self.assertIn("show", results[1]["error"]["help"])
        self.assert_fails(self.repl(self.model, "-c", "sohw x; info"), 1, "did you mean `show`?", "not run: `info`")

    def test_a_finding_has_a_status_and_names_what_was_not_run(self):
        weights = self.path / "llama" / "model.safetensors"
        os.truncate(weights, weights.stat().st_size - 4)
        done = self.repl(self.model, "-c", "verify; ls model.norm.weight; info")
        self.assert_fails(done, 3, "`verify` found a problem; not run: `ls model.norm.weight`, `info`", "--keep-going")
        self.assertNotIn("model type", done.stdout)
        done = self.repl(self.model, "--json", "-c", "verify; info")
        self.assertEqual(json.loads(done.stdout)["not_run"], ["info"])
        done = self.repl(self.model, "--keep-going", "-c", "verify; info")
        self.assertEqual(done.returncode, 3)
        self.assertIn("model type", done.stdout)
        done = self.repl(self.model, "--keep-going", "-c", "verify; shwo; info")
        self.assert_fails(done, 1, "did you mean `show`?")
        self.assertIn("model type", done.stdout)

    def test_an_open_quote_is_an_error(self):
        self.assert_fails(self.repl(self.model, stdin="info\nloss 'AB\n"), 1, "ends inside a quote")

    def test_commands_without_a_target_are_an_error(self):
        for arguments in (("-c", "verify"), ("", "-c", "verify"), ("--json", "-c", "verify"), ()):
            done = self.repl(*arguments, stdin="verify\n")
            self.assert_fails(done, 2, "TARGET is required")
        done = self.repl("--json", cwd=self.path)
        self.assertEqual((done.returncode, json.loads(done.stdout)), (0, {"targets": ["llama"]}))

    def test_source_keeps_going_too(self):
        script = self.path / "checks.am"
        script.write_text("shwo\ninfo\n")
        done = self.repl(self.model, "--keep-going", "-c", f"source {script}; ls model.norm.weight")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("checks.am:1: there is no command `shwo`", done.stdout)
        self.assertIn("model type", done.stdout)
        self.assertIn("1 parameter,", done.stdout)

    def test_quit_ends_a_script(self):
        self.assertEqual(len(self.results(self.model, "-c", "info; quit; sohw")), 2)

    def test_empty_input_is_fine(self):
        self.assertEqual(self.results(self.model), [])
        self.assertEqual(self.results(self.model, "-c", " ; # nothing"), [])

    def test_generated_text_cannot_upset_a_terminal(self):
        done = self.repl(self.model, "-c", "generate ABC --tokens 200 --temperature 100")
        self.assertEqual(done.returncode, 0, done.stderr)
        for character in done.stdout:
            self.assertTrue(character in "\n\t" or ord(character) >= 32, repr(character))

    def test_a_file_is_read(self):
        text = self.path / "text"
        text.write_text("ABC DEF")
        (loss,) = self.results(self.model, "-c", f"loss {text}")
        self.assertEqual(loss["tokens"], 7)

    def test_help_and_version(self):
        done = self.repl("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("Examples:", done.stdout)
        done = self.repl("--version")
        self.assertEqual(done.returncode, 0)
        self.assertIn("libtorch", done.stdout)


class BadInputTest(ReplTest):
    def test_an_unknown_option_is_named_though_it_has_a_value(self):
        for arguments in ((self.model, "--frobnicate=3"), (self.model, "--frobnicate", "3"),
                          ("--frobnicate", "3", self.model), (self.model, "-c", "ls", "--frobnicate=3")):
            self.assert_fails(self.repl(*arguments), 2, "am-repl: error: unknown option --frobnicate\n")
        done = self.repl(self.model, "--frobnicate=3", "--json")
        self.assertEqual(json.loads(done.stdout)["diagnostics"][0]["message"],
                         "unknown option --frobnicate")

    def test_missing_target(self):
        self.assert_fails(self.repl(self.path / "nothing", "-c", "ls"), 2, "nothing", "no such")
        self.assert_fails(self.repl(), 2, "TARGET")

    def test_a_folder_that_is_nothing(self):
        empty = self.path / "empty"
        empty.mkdir()
        self.assert_fails(self.repl(empty, "-c", "ls"), 2, "safetensors", "step-N", "plan")
        # If a folder contains only folders, the message names those that am-repl can open.
        self.assert_fails(self.repl(self.path, "-c", "ls"), 2, f"these can be opened: {self.path / 'llama'}")
        (self.path / "file").write_text("hello")
        self.assert_fails(self.repl(self.path / "file", "-c", "ls"), 2, "neither a plan nor weights")

    def test_errors_at_the_start_are_json_too(self):
        done = self.repl(self.path / "nothing", "-c", "ls", "--json")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(json.loads(done.stdout)["results"], [])
        self.assertIn("no such", json.loads(done.stdout)["error"]["message"])

    def test_truncated_and_lying_files(self):
        weights = self.model / "model.safetensors"
        whole = weights.read_bytes()
        for content in (b"", whole[:4], whole[:100],
                        struct.pack("<Q", 1 << 60) + whole[8:],
                        whole.replace(b'"F32"', b'"F33"', 1)):
            weights.write_bytes(content)
            self.assert_fails(self.repl(self.model, "-c", "ls"), 2, "model.safetensors")
        weights.write_bytes(whole[:-8])  # the header is complete, and the last tensor is cut off
        done = self.repl(self.model, "-c", "ls")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("damaged: model.safetensors: it was cut off: 8 bytes", done.stderr)

    def test_a_missing_script(self):
        self.assert_fails(self.repl(self.model, "-f", self.path / "none"), 2, "none")

    def test_weights_of_another_model(self):
        config = json.loads((self.model / "config.json").read_text())
        config["hidden_size"] = 64
        (self.model / "config.json").write_text(json.dumps(config))
        done = self.repl(self.model, "-c", "ls lm_head.weight; loss ABC")
        self.assert_fails(done, 1, "does not fit the model")
        self.assertIn("lm_head.weight", done.stdout)

    def test_both_a_command_and_a_file(self):
        self.assert_fails(self.repl(self.model, "-c", "ls", "-f", "x"), 2)


if __name__ == "__main__":
    unittest.main()
