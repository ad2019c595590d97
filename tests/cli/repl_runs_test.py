"""Runs without weights: `metrics`, `plot` and `compare` of am-repl, and am-run ls."""

import json
import math

from cli_support import run_tool
from run_support import RunTest

PLAN = """[model]
path = "model"
[mesh]
world_size = 2
[train]
seq_len = 16
max_steps = {steps}
[optimizer]
lr = {lr}
"""


class RunsTest(RunTest):
    def make_run(self, name, losses, lr=1e-3, **more):
        folder = self.path / name
        folder.mkdir(parents=True)
        (folder / "plan.toml").write_text(PLAN.format(steps=len(losses), lr=lr))
        with open(folder / "metrics.jsonl", "w", encoding="utf-8") as file:
            for i, loss in enumerate(losses):
                row = {"step": i + 1, "loss": loss if math.isfinite(loss) else None, "grad_norm": 1.0 / (i + 1),
                       "lr": lr, "tokens": 32, "step_seconds": 0.5, "tokens_per_second": 64.0}
                row.update({key: values[i] for key, values in more.items() if values[i] is not None})
                file.write(json.dumps(row) + "\n")
        return folder

    def ask(self, *arguments, status=0):
        result = run_tool("am-repl", *arguments, cwd=self.path)
        self.assertEqual(result.status, status, result)
        return result

    def test_metrics_are_rows_that_filters_take(self):
        self.make_run("run", [3.0, 2.5, math.nan, 2.0], validation_loss=[None, 2.75, None, 2.25])
        (answer,) = json.loads(self.ask("run", "--json", "-c", "metrics loss validation_loss").out)["results"]
        self.assertEqual(answer["metrics"][1], {"step": 2, "loss": 2.5, "validation_loss": 2.75})
        self.assertIsNone(answer["metrics"][2]["loss"])
        text = self.ask("run", "-c", "metrics | sort loss | head 1 | select step loss").out
        self.assertRegex(text, r"1\s+3\b")
        self.assertIn("grad_norm", self.ask("run", "-c", "metrics").out.splitlines()[0])
        error = self.ask("run", "-c", "metrics los_", status=1).err
        self.assertIn("did you mean `loss`?", error)

    def test_a_curve_at_rest_is_drawn_without_weights(self):
        self.make_run("run", [4.0 / (i + 1) for i in range(200)])
        for script in ("plot loss", "metrics | plot loss", "metrics | tail 100 | plot loss"):
            text = self.ask("run", "-c", script).out
            self.assertIn("loss\n", text)
            self.assertRegex(text, "[\u2801-\u28ff]")
        self.assertTrue(text.splitlines()[-1].endswith("200"), text)
        two = self.ask("run", "-c", "plot loss grad_norm --svg curves.svg")
        self.assertEqual(two.out.count("loss\n") + two.out.count("grad_norm\n"), 2)
        picture = (self.path / "curves.svg").read_text()
        self.assertEqual(picture.count("<polyline"), 2)
        again = self.ask("run", "-c", "plot loss --svg curves.svg", status=1)
        self.assertIn("--force", again.err)

    def test_every_line_fits_the_window(self):
        self.make_run("run", [4.0 / (i + 1) for i in range(200)])
        self.make_run("other", [3.0 / (i + 1) for i in range(200)], lr=0.1)
        for columns in (80, 100, 120):
            for arguments in (("run", "-c", "metrics"), ("run", "-c", "plot loss lr"),
                              ("run", "other", "-c", "compare loss")):
                result = run_tool("am-repl", *arguments, cwd=self.path, env={"COLUMNS": str(columns)})
                self.assertEqual(result.status, 0, result)
                self.assertLessEqual(max(map(len, result.out.splitlines())), columns, result.out)

    def test_runs_are_compared_with_the_keys_in_which_they_differ(self):
        self.make_run("a/run", [4.0, 3.0, 2.0], lr=0.001, validation_loss=[5.0, 2.5, 3.5])
        self.make_run("b/run", [4.0, 3.5, 3.0], lr=0.01)
        result = self.ask("a/run", "b/run", "-c", "compare")
        self.assertIn("optimizer.lr", result.out)
        self.assertIn("a/run", result.out)
        self.assertNotIn("train.seq_len", result.out)
        (answer,) = json.loads(self.ask("a/run", "b/run", "--json", "-c", "compare").out)["results"]
        self.assertEqual([each["key"] for each in answer["differences"]], ["optimizer.lr"])
        self.assertEqual(answer["differences"][0]["values"], [0.001, 0.01])
        self.assertEqual([each["loss"] for each in answer["runs"]], [2.0, 3.0])
        self.assertEqual(answer["runs"][0]["best_validation_loss"], 2.5)
        self.assertIn("two runs", self.ask("a/run", "-c", "compare", status=1).err)
        self.assertIn("not the folder of a run", self.ask("a/run", "b", "-c", "compare", status=2).err)

    def test_a_million_steps_are_drawn(self):
        folder = self.make_run("run", [1.0])
        line = '{"step":%d,"loss":%f,"grad_norm":1.0,"lr":0.001,"tokens":32,"step_seconds":0.5,' \
               '"tokens_per_second":64.0,"tokens_per_second_per_rank":32.0,"peak_memory_bytes":1000000,"mfu":null}\n'
        with open(folder / "metrics.jsonl", "w", encoding="utf-8") as file:
            file.writelines(line % (i + 1, 3.0 + math.sin(i / 1e5)) for i in range(1_000_000))
        text = self.ask("run", "-c", "plot loss").out
        self.assertTrue(text.splitlines()[-1].endswith("1e+06"), text)

    def test_am_run_lists_runs(self):
        self.make_run("runs/old", [4.0, 3.0])
        self.make_run("runs/new", [4.0, 3.5, math.nan])
        (self.path / "runs" / "empty").mkdir()
        result = json.loads(run_tool("am-run", "ls", "--json", cwd=self.path).out)
        self.assertEqual({run["run"] for run in result["runs"]}, {"runs/old", "runs/new"})
        by_name = {run["run"]: run for run in result["runs"]}
        self.assertEqual(by_name["runs/old"]["loss"], 3.0)
        self.assertIsNone(by_name["runs/new"]["loss"])
        self.assertEqual(by_name["runs/old"]["max_steps"], 2)
        self.assertEqual(by_name["runs/old"]["state"], "ended")
        text = run_tool("am-run", "ls", cwd=self.path).out
        self.assertIn("runs/old", text)
        missing = run_tool("am-run", "ls", "nowhere", cwd=self.path)
        self.assertEqual(missing.status, 2)
        self.assertIn("no such folder", missing.err)
