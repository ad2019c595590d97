"""am-repl's filters (`ls | head 2`), output modes and output files, on a checkpoint and on
ranks."""

import csv
import io
import re
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from answer_schema import check_answers
from cli_support import run_tool

BIN = Path(os.environ["AM_BIN_DIR"])
DATA = Path(os.environ["AM_SOURCE_DIR"]) / "tests" / "data"
MODEL = DATA / "hf" / "llama"

PLAN = f"""
[model]
path = "{MODEL}"
weights = "{MODEL}/model.safetensors"
[mesh]
world_size = 2
[strategy]
name = "ddp"
[train]
seq_len = 16
"""


class ConsoleTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="am-repl-test-")
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)

    def repl(self, target, commands, *arguments, status=0):
        done = subprocess.run(
            [BIN / "am-repl", target, "-c", commands, *arguments], cwd=self.path, input="", capture_output=True,
            text=True, timeout=60, env={**os.environ, "LC_ALL": "C.UTF-8"})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_csv_of_rows_is_read_by_others(self):
        out = self.repl(MODEL, "mode csv; stats | sort norm | head 3").stdout
        rows = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual(len(rows), 3)
        norms = [float(row["norm"]) for row in rows]
        self.assertEqual(norms, sorted(norms, reverse=True))

    def test_json_of_a_pipe_has_its_rows(self):
        results = check_answers(self.repl(MODEL, "ls | tail 2; norms | count", "--json").stdout)["results"]
        self.assertEqual(len(results[0]["parameters"]), 2)
        self.assertEqual(results[0]["input"], "ls | tail 2")
        self.assertEqual(results[0]["filters"], ["tail"])
        self.assertEqual(results[1]["norms"], [{"count": 21}])

    def test_filters_keep_the_columns_and_cells_of_the_command(self):
        columns = self.repl(MODEL, "ls").stdout.splitlines()[0].split()
        lines = self.repl(MODEL, "ls | sort size | head 2").stdout.splitlines()
        self.assertEqual(lines[0].split(), columns)
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines[2].split()[-1], "12416")
        (self.path / "plan.toml").write_text(PLAN)
        out = self.repl(self.path / "plan.toml", "checksum | grep norm | head 2 | select name copies").stdout
        self.assertEqual(out.splitlines()[0].split(), ["name", "copies"])
        self.assertIn("2 copies, equal", out)
        self.assertNotIn("entries", out)

    def test_every_table_is_the_same_behind_a_pipe(self):
        (self.path / "plan.toml").write_text(PLAN)
        norms = "model.norm.weight model.layers.0.input_layernorm.weight"
        commands = ("ls", "stats", "norms", f"hist {norms}", f"show {norms}", "top")
        for command in commands:
            with self.subTest(command):
                whole = self.repl(self.path / "plan.toml", command).stdout.splitlines()
                piped = self.repl(self.path / "plan.toml", command + " | head 100000").stdout.splitlines()
                self.assertEqual([" ".join(line.split()) for line in piped],
                                 [" ".join(line.split()) for line in whole[:len(piped)]])
                self.assertGreaterEqual(len(piped), 2)
        names = self.repl(MODEL, "experts --of AB | sort busiest", "--tokenizer", "bytes", status=1).stderr
        self.assertIn("no experts", names)

    def test_rows_are_filtered_by_a_number(self):
        rows = check_answers(self.repl(MODEL, "stats; stats | where norm > 5.6", "--json").stdout)["results"]
        large = [row for row in rows[0]["stats"] if row["norm"] > 5.6]
        self.assertEqual(rows[1]["stats"], large)
        self.assertTrue(0 < len(large) < len(rows[0]["stats"]))
        text = self.repl(MODEL, "stats | where norm > 5.6").stdout
        self.assertEqual([line.split()[0] for line in text.splitlines()[2:]], [row["name"] for row in large])

    def in_window(self, commands, columns=120, status=0):
        result = run_tool("am-repl", MODEL, "-c", commands, env={"COLUMNS": str(columns), "OMP_NUM_THREADS": "1"})
        self.assertEqual(result.status, status, result)
        return result.out

    def test_equal_layers_are_one_row_in_a_window(self):
        for command in ("ls", "stats"):
            folded = self.in_window(command)
            self.assertIn("model.layers.0-1.self_attn.q_proj.weight ", folded)
            self.assertNotIn("layers.1.", folded)
            flat = self.in_window(command + " --flat")
            self.assertIn("model.layers.1.self_attn.q_proj.weight ", flat)
            self.assertNotIn("layers.0-1", flat)
            self.assertGreater(len(flat.splitlines()), len(folded.splitlines()))
        other = self.in_window(f"same {DATA / 'hf' / 'mistral'}", status=3)
        self.assertIn("model.layers.0-1.self_attn.q_proj.weight ", other)
        self.assertNotIn("layers.1.", other)
        self.assertIn("0 of 21 tensors are the same", other)

    def test_the_rows_of_a_narrow_window_have_different_names(self):
        for command in ("ls", "stats", "norms", "checksum", "plot"):
            with self.subTest(command):
                lines = [line.split() for line in self.in_window(command, 80).splitlines()]
                names = [words[0] for words in lines if words and words[0].endswith(".weight")]
                self.assertGreater(len(names), 5)
                self.assertEqual(sorted(names), sorted(set(names)))

    def test_rows_of_a_list_in_each_row_are_filtered(self):
        (self.path / "plan.toml").write_text(PLAN)
        commands = "step; collectives 0 | tail 3; collectives | where bytes >= 0 | select rank op | count"
        results = check_answers(self.repl(self.path / "plan.toml", commands, "--json").stdout)["results"]
        last = results[1]["collectives"]
        self.assertEqual({row["rank"] for row in last}, {0})
        self.assertEqual(len(last), 3)
        self.assertGreater(results[2]["collectives"][0]["count"], 6)

    def test_an_output_file_is_kept_and_whole(self):
        (self.path / "kept").write_text("mine")
        done = self.repl(MODEL, "output kept; ls", status=1)
        self.assertIn("kept exists already", done.stderr)
        self.assertEqual((self.path / "kept").read_text(), "mine")
        done = self.repl(MODEL, "output new; ls *norm*; ls nothing", status=1)
        self.assertEqual(done.stdout, "")
        self.assertIn("5 parameters", (self.path / "new").read_text())
        self.assertEqual(sorted(os.listdir(self.path)), ["kept", "new"])

    def test_source_stops_at_the_line_that_fails(self):
        (self.path / "commands.am").write_text("ls norm\n\nshow nothing\nls\n")
        done = self.repl(MODEL, "source commands.am", status=1)
        self.assertIn("commands.am:3: there is no parameter `nothing`", done.stderr)

    def test_a_report_of_ranks_has_pictures(self):
        (self.path / "plan.toml").write_text(PLAN)
        results = check_answers(self.repl(
            self.path / "plan.toml",
            "hist lm_head.weight --svg hist.svg; checksum *norm*; let w = lm_head.weight[:8]; norms w; report r.html",
            "--json").stdout)["results"]
        self.assertTrue(all(result["ok"] for result in results))
        self.assertEqual({each["compared"] for each in results[1]["parameters"]}, {2})
        self.assertEqual(results[3]["norms"][0]["numel"], 8 * 32)
        page = (self.path / "r.html").read_text()
        self.assertEqual(page.count("<h2 id="), 4)
        self.assertEqual(page.count("</svg>"), 1)
        self.assertEqual(page.count("<details>"), 1)  # the picture's numbers
        self.assertTrue((self.path / "hist.svg").read_text().startswith("<svg"))

    def test_a_report_says_what_was_opened_and_leaves_out_settings(self):
        self.repl(MODEL, "mode csv; let w = lm_head.weight; mode table; stats w; report r.html")
        page = (self.path / "r.html").read_text()
        self.assertEqual(re.findall('<h2 id="c[0-9]+">([^<]*)</h2>', page), ["stats w"])
        self.assertIn('<a href="#c0">stats w</a>', page)
        self.assertIn(str(MODEL), page)
        self.assertRegex(page, r"20\d\d-\d\d-\d\d \d\d:\d\d UTC by am-repl ")


if __name__ == "__main__":
    unittest.main()
