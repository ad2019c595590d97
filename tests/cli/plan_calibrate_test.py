"""scripts/calibrate fits the time model to measured runs, and am-plan uses the resulting file."""

import csv
import math
import unittest

from cli_support import BIN, MODELS, SOURCE, PlanCase, run_tool


class Calibrate(PlanCase):
    def calibrate(self, *arguments, status=0):
        result = run_tool(SOURCE / "scripts/calibrate", *arguments, env={"AM_BUILD_DIR": str(BIN.parent)})
        self.assertEqual(result.status, status, result)
        return result

    def test_own_rows(self):
        header = ("id,source,config,gpu,implementation,zero_stage,dp_shard,seq_len,recompute,"
                  "tokens_per_second_per_gpu,group\n")
        config = MODELS / "llama-3.1-8b"
        rows = "".join(f"r{n},mine,{config},H100-80G,torchtitan,3,{n},8192,full,{4000 - n},g{n}\n"
                       for n in (8, 16, 32, 64))
        table = self.write("rows.csv", header + rows)
        report = self.calibrate(table, "-o", self.folder / "mine.toml").out
        self.assertIn("4 runs, 4 of them timed\n", report)
        self.assertIn(f"written: {self.folder / 'mine.toml'}\n", report)
        plan = self.plan('[mesh]\nworld_size = 8\n[train]\nseq_len = 8192\n[strategy]\n'
                         'activation_checkpointing = true\n[cluster]\ngpu = "h100-sxm"\n'
                         'implementation = "torchtitan"\ncalibration = "mine.toml"\n')
        rate = self.json("cost", plan)["tokens_per_second_per_gpu"]
        self.assertAlmostEqual(rate / 3992, 1.0, delta=0.15)
        # A relative path on the command line is relative to the current folder, not to the plan's
        # folder.
        (self.folder / "plans").mkdir()
        elsewhere = self.plan('[mesh]\nworld_size = 8\ntp_size = 1\n[train]\nseq_len = 8192\n[cluster]\n'
                              'gpu = "h100-sxm"\n', name="plans/plan.toml")
        self.json("search", elsewhere, "--tp", "1", "--pp", "1", "--top", "1", "--calibration", "mine.toml",
                  cwd=self.folder)
        self.write("mine.toml", "[constants]\ngemm_hoper = 1\n")
        self.am_plan("cost", plan, status=1)

    def test_evaluation_of_the_built_in_runs(self):
        report = self.calibrate("--evaluate").out
        self.assertTrue(report.startswith("703 runs, 567 of them timed\n"), report)
        self.assertIn("step time, by the constants as they are", report)
        self.assertIn("runs that fitted but are predicted not to fit: 0\n", report)
        self.assertIn("runs that ran out of memory but are predicted to fit: 0\n", report)

    def test_the_batch_of_each_built_in_run_is_the_published_one(self):
        with open(SOURCE / "scripts/measurements/runs.csv", encoding="utf-8") as file:
            published = {row["id"]: row["gbs"] for row in csv.DictReader(file)}
        with open(SOURCE / "plans/measured/runs.csv", encoding="utf-8") as file:
            runs = list(csv.DictReader(file))
        self.assertGreater(len(runs), 600)
        for run in runs:
            sizes = [float(run[key] or 1) for key in ("micro_batch", "micro_batches", "dp_replicate", "dp_shard")]
            self.assertEqual(math.prod(sizes), float(published[run["id"]]), run["id"])

    def test_rows_say_which_cell_is_wrong(self):
        table = self.write("rows.csv", "config,gpu,implementation,seq_len,format,tp\n"
                                       f"{MODELS / 'llama-3.1-8b'},h100-sxm,megatron,8192,bf16,0\n"
                                       ",h1000,megatrn,,bf17,x\n")
        said = self.calibrate(table, status=1).err
        for place in ("rows.csv:2", "rows.csv:3"):
            self.assertIn(place, said)
        for message in ('tp = "0"', "hidden is missing", 'implementation = "megatrn"', "seq_len is missing",
                        'format = "bf17"', 'tp = "x"', 'no GPU is called "h1000"'):
            self.assertIn(message, said)

    def test_bad_rows(self):
        table = self.write("rows.csv", 'a,b\n1,2,3\n"open\n')
        self.assertIn("csv.syntax", self.calibrate(table, status=1).err)

    def test_a_wrong_line(self):
        self.assertIn("--evaluate", self.calibrate("--evaluate", "-o", "x.toml", status=2).err)


if __name__ == "__main__":
    unittest.main()
