"""Runs whose folders contain no weights: `metrics`, `plot` and `compare` of am-repl, and `ls`
and `compare` of am-run."""

import json
import math
import shutil
import subprocess

from cli_support import BIN, run_tool
from run_support import SOURCE, RunTest

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

LLAMA_8B = f"""[model]
path = "{SOURCE}/plans/models/llama-3.1-8b"
[mesh]
world_size = 8
[train]
seq_len = 4096
max_steps = 8
[cluster]
gpu = "h100-sxm"
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
        error = self.ask("run", "-c", "metrics validation_loss/web", status=1).err
        self.assertIn("no plan has a [[validation.set]]", error)

    def test_the_losses_of_validation_sets_are_drawn(self):
        run = self.make_run("run", [3.0, 2.5, 2.0], **{"validation_loss/web": [None, 2.75, 2.25]})
        with open(run / "plan.toml", "a", encoding="utf-8") as plan:
            plan.write('[validation]\nevery = 1\n[[validation.set]]\nname = "web"\npath = "web.txt"\n')
        self.assertIn("validation_loss/web\n", self.ask("run", "-c", "plot validation_loss/web").out)
        error = self.ask("run", "-c", "plot validation_loss/code", status=1).err
        self.assertIn("legal: validation_loss/web", error)

    def test_a_report_shows_the_curves_and_the_plan_of_a_run(self):
        self.make_run("run", [3.0, 2.5, 2.0], validation_loss=[None, 2.75, 2.25])
        self.make_run("other", [3.0, 2.0, 1.0])
        self.ask("run", "-c", "report run.html")
        page = (self.path / "run.html").read_text()
        self.assertIn("<h2 id=\"c0\">plot loss grad_norm validation_loss</h2>", page)
        self.assertEqual(page.count("<polyline"), 3)
        for part in ("step 3, loss 2", "max_steps = 3", "plan.toml"):
            self.assertIn(part, page)
        self.ask("run", "other", "-c", "report both.html")
        both = (self.path / "both.html").read_text()
        self.assertIn("compare</h2>", both)
        self.assertGreater(both.count("<polyline"), 6)

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

    def test_a_curve_needs_no_libtorch(self):
        self.make_run("run", [4.0 / (i + 1) for i in range(200)])
        self.make_run("other", [3.0 / (i + 1) for i in range(200)])
        alone = self.path / "am-repl"  # without am-repl-values, the program with libtorch, beside it
        shutil.copy(BIN / "am-repl", alone)
        for runs, script in ((["run"], "metrics | plot loss"), (["run"], "plot loss grad_norm"),
                             (["run", "other"], "compare")):
            done = subprocess.run([alone, *runs, "-c", script], cwd=self.path, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("loss\n", done.stdout)
        linked = subprocess.run(["ldd", alone], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("torch", linked)

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

    def test_a_run_is_compared_with_another(self):
        # The comparison leaves out the first three steps, except for the time of saves.
        of_step = [9.0] * 3 + [0.5] * 7
        self.make_run("fast", [2.0] * 10, data_seconds=[0.0] * 10, waiting_seconds=[0.1] * 10,
                      peak_memory_bytes=[2 << 20] * 10, saving_seconds=[0.0] * 10)
        run = self.make_run("slow", [2.0] * 10, step_seconds=of_step, data_seconds=[5.0] * 3 + [0.25] * 7,
                            waiting_seconds=[0.0] * 3 + [0.1] * 7, peak_memory_bytes=[1 << 20] * 10,
                            saving_seconds=[0.0] * 9 + [1.0])
        answer = json.loads(run_tool("am-run", "compare", run, "fast", "--json", cwd=self.path).out)
        rows = {row["part"]: (row["run"], row["other"]) for row in answer["rows"]}
        self.assertEqual(answer["steps"], 7)
        self.assertEqual(rows["step_seconds"], (0.5, 0.5))
        self.assertAlmostEqual(rows["compute_seconds"][0], 0.15)
        self.assertAlmostEqual(rows["compute_seconds"][1], 0.4)
        self.assertEqual(rows["saving_seconds"], (0.1, 0.0))
        self.assertEqual(rows["peak_memory_bytes"], (1 << 20, 2 << 20))
        self.assertEqual([each["part"] for each in answer["longer"]], ["data_seconds", "saving_seconds"])
        text = run_tool("am-run", "compare", run, "fast", cwd=self.path).out
        self.assertIn("longer than in the other run: data, by 250 ms per step", text)
        missing = run_tool("am-run", "compare", "nowhere", cwd=self.path)
        self.assertEqual(missing.status, 2)
        self.assertIn("no metrics.jsonl", missing.err)

    def test_a_run_is_compared_with_its_prediction(self):
        plan = self.path / "plan.toml"
        plan.write_text(LLAMA_8B)
        cost = json.loads(run_tool("am-plan", "cost", plan, "--json").out)
        memory = json.loads(run_tool("am-plan", "memory", plan, "--json").out)
        seconds = cost["step_seconds"]
        peak = memory["peak_bytes"]
        run = self.make_run("run", [2.0] * 8, step_seconds=[seconds + 0.5] * 8, data_seconds=[0.5] * 8,
                            waiting_seconds=[0.25] * 8, peak_memory_bytes=[peak] * 8,
                            peak_reserved_bytes=[peak] * 8)
        (run / "plan.toml").write_text(LLAMA_8B)
        answer = json.loads(run_tool("am-run", "compare", run, "--json", cwd=self.path).out)
        rows = {row["part"]: (row["run"], row["plan"]) for row in answer["rows"]}
        self.assertEqual(rows["step_seconds"][1], seconds)
        self.assertEqual(rows["peak_memory_bytes"], (peak, peak))
        for value in rows["compute_seconds"]:
            self.assertAlmostEqual(value, seconds)
        self.assertNotIn("waiting_seconds", rows)
        self.assertEqual([each["part"] for each in answer["longer"]], ["data_seconds"])
        # The plan of this run does not contain the number of ranks, which the launcher set. The
        # computation of this run is slower than the prediction and than the computation of `run`.
        text = LLAMA_8B.replace("world_size = 8\n", "")
        slow = self.make_run("slow", [2.0] * 8, step_seconds=[3 * seconds] * 8, data_seconds=[0.0] * 8,
                             tokens_per_second=[80.0] * 8, tokens_per_second_per_rank=[10.0] * 8,
                             waiting_seconds=[0.25] * 8, peak_memory_bytes=[peak] * 8, peak_reserved_bytes=[peak] * 8)
        (slow / "plan.toml").write_text(text)
        for other in ((), (run,)):
            answer = json.loads(run_tool("am-run", "compare", slow, *other, "--json", cwd=self.path).out)
            self.assertEqual([each["part"] for each in answer["longer"]], ["compute_seconds"])
        # For a run without GPUs, am-plan predicts only memory: that of a rank on the host.
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for row in rows:
            del row["peak_reserved_bytes"]
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        answer = json.loads(run_tool("am-run", "compare", run, "--json", cwd=self.path).out)
        rows = {row["part"]: row["plan"] for row in answer["rows"]}
        self.assertIsNone(rows["step_seconds"])
        self.assertNotEqual(rows["peak_memory_bytes"], peak)
        self.assertIn("CPUs", answer["notes"][0])

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
