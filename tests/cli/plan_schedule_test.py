"""am-plan schedule prints the order of a schedule's passes, writes it to files, and reads
schedules from CSV files."""

import csv
import json
import unittest
import xml.etree.ElementTree as ElementTree

from cli_support import SOURCE, PlanCase

SVG = "{http://www.w3.org/2000/svg}"


def mesh(pp, microbatches=8, more=""):
    return (f"[mesh]\nworld_size = {pp}\npp_size = {pp}\n"
            f"[train]\nglobal_batch_size = {microbatches}\n"
            f"[pipeline]\nmicrobatches = {microbatches}\n{more}")


class ReadmePicture(PlanCase):
    """The picture in README.md."""

    OPTIONS = ("mesh.pp_size=4", "pipeline.microbatches=8", "pipeline.virtual_stages=2", "train.global_batch_size=128",
               'pipeline.schedule="zbv_zero_bubble"')

    def test_it_is_what_schedule_draws(self):
        out = self.folder / "timeline.svg"
        self.am_plan("schedule", SOURCE / "plans" / "llama-3.1-70b-64gpu.toml",
                      *(word for option in self.OPTIONS for word in ("--set", option)), "--svg", out)
        picture = SOURCE / "lib" / "docs" / "pictures" / "zero_bubble.svg"
        self.assertEqual(out.read_text(), picture.read_text())


class Order(PlanCase):
    def test_the_order_and_its_numbers(self):
        answer = self.json("schedule", self.plan(mesh(2, 4)))
        self.assertEqual(answer["schedule"], "1f1b")
        self.assertEqual(answer["stages"], 2)
        self.assertEqual(answer["microbatches"], 4)
        self.assertEqual(answer["ranks"], [
            ["0F0", "0F1", "0B0", "0F2", "0B1", "0F3", "0B2", "0B3"],
            ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2", "1F3", "1B3"]])
        self.assertEqual(answer["peak_in_flight"], [2, 1])
        self.assertAlmostEqual(answer["bubble_fraction"], 1 / 5)
        self.assertAlmostEqual(answer["makespan"], 15)
        self.assertEqual(answer["rounds_per_step"], 1)

    def test_interleaved_stages(self):
        more = 'schedule = "interleaved_1f1b"\nvirtual_stages = 2\n'
        answer = self.json("schedule", self.plan(mesh(4, 8, more)))
        self.assertEqual(answer["stages"], 8)
        self.assertEqual(answer["stage_ranks"], [0, 1, 2, 3, 0, 1, 2, 3])
        self.assertAlmostEqual(answer["bubble_fraction"], 3 / (2 * 8 + 3))
        self.assertEqual(answer["peak_in_flight"], [11, 9, 7, 5])

    def test_pairs_are_one_entry(self):
        more = 'schedule = "dual_pipe_v"\nvirtual_stages = 2\n'
        answer = self.json("schedule", self.plan(mesh(2, 4, more)))
        self.assertEqual(answer["stage_ranks"], [0, 1, 1, 0])
        self.assertIn("(0F3;3B1)OVERLAP_F_B", answer["ranks"][0])

    def test_a_step_of_several_rounds(self):
        plan = self.plan("[mesh]\nworld_size = 4\npp_size = 2\n[train]\nglobal_batch_size = 16\n"
                         "[pipeline]\nmicrobatches = 4\n")
        self.assertEqual(self.json("schedule", plan)["rounds_per_step"], 2)
        self.assertIn("runs this schedule 2 times", self.am_plan("schedule", plan).out)

    def test_without_microbatches_there_is_one_for_each_stage(self):
        plan = self.plan("[mesh]\nworld_size = 2\npp_size = 2\n[train]\nglobal_batch_size = 4\n"
                         '[pipeline]\nschedule = "dual_pipe_v"\nvirtual_stages = 2\n')
        self.assertEqual(self.json("schedule", plan)["microbatches"], 4)

    def test_no_pipeline(self):
        plan = self.plan("[mesh]\nworld_size = 2\n[train]\nglobal_batch_size = 6\n")
        answer = self.json("schedule", plan)
        self.assertEqual(answer["ranks"], [["0F0", "0B0", "0F1", "0B1", "0F2", "0B2"]])
        self.assertEqual(answer["bubble_fraction"], 0)
        self.assertEqual(answer["peak_in_flight"], [1])
        self.assertIn("no pipeline", self.am_plan("schedule", plan).out)

    def test_the_screen(self):
        result = self.am_plan("schedule", self.plan(mesh(2, 3)), "--color", "never")
        self.assertIn("1f1b: 2 stages on 2 ranks, 3 micro-batches\n", result.out)
        self.assertIn("rank 1  ·· F0 B0─── F1 B1─── F2 B2───\n", result.out)
        self.assertIn("bubble 25.0 %, makespan 12", result.out)
        self.assertNotIn("\x1b", result.out)
        colored = self.am_plan("schedule", self.plan(mesh(2, 3)), "--color", "always")
        self.assertIn("\x1b[34mF0\x1b[0m", colored.out)

    def test_a_narrow_screen_is_not_left(self):
        plan = self.plan(mesh(8, 64))
        out = self.am_plan("schedule", plan, env={"COLUMNS": "60"}).out
        lines = [line for line in out.splitlines() if line.startswith("rank ")]
        self.assertEqual(len([line for line in lines if "F0" in line]), 8)
        self.assertLessEqual(max(len(line) for line in lines), 60)
        self.assertIn("% of the time", out)


class Refused(PlanCase):
    def rule(self, plan, *arguments):
        answer = self.json("schedule", plan, *arguments, status=1)
        self.assertFalse(answer["ok"])
        return [(item["rule"], item["help"]) for item in answer["diagnostics"]]

    def test_what_schedules_demand(self):
        self.assertEqual(self.rule(self.plan(mesh(4, 2))),
                         [("pp.schedule", 'microbatches = 4 or 8, or schedule = "gpipe"')])
        more = 'schedule = "interleaved_zero_bubble"\nvirtual_stages = 2\n'
        self.assertEqual(self.rule(self.plan(mesh(4, 9, more))),
                         [("pp.schedule", 'microbatches = 8 or 10, or schedule = "looped_bfs"')])
        self.assertEqual(self.rule(self.plan(mesh(4, 8)), "--set", "pipeline.virtual_stages=2"),
                         [("pp.virtual_stages",
                           'virtual_stages = 1, or schedule = "interleaved_1f1b"')])

    def test_a_schedule_of_a_billion_passes(self):
        plan = self.plan(mesh(16, 1 << 20))
        rules = [rule for rule, _ in self.rule(plan)]
        self.assertEqual(rules, ["pp.schedule"])
        huge = ("--set", "mesh.world_size=1048576", "--set", "mesh.pp_size=1048576",
                "--set", "pipeline.virtual_stages=1024", "--set", "pipeline.schedule='looped_bfs'")
        self.assertIn("pp.schedule", [rule for rule, _ in self.rule(plan, *huge)])
        alone = self.plan("[mesh]\nworld_size = 1\n[train]\nglobal_batch_size = 1000000000\n")
        self.assertEqual([rule for rule, _ in self.rule(alone)], ["pp.schedule"])

    def test_every_rule_is_explained(self):
        for rule in ("pp.schedule", "schedule.syntax", "schedule.passes", "schedule.order",
                     "schedule.owner", "schedule.deadlock", "schedule.plan"):
            self.assertIn(rule, self.am_plan("explain", rule).out)


class Files(PlanCase):
    def test_svg(self):
        svg = self.folder / "a.svg"
        self.am_plan("schedule", self.plan(mesh(2, 4)), "--svg", svg)
        tree = ElementTree.parse(svg).getroot()
        titles = [group.find(f"{SVG}title").text for group in tree.iter(f"{SVG}g")]
        self.assertEqual(len(titles), 2 * 2 * 4)
        self.assertIn("1B3: stage 1, micro-batch 3, 11 to 13", titles)

    def test_trace(self):
        trace = self.folder / "a.json"
        answer = self.json("schedule", self.plan(mesh(3, 6)), "--trace", trace)
        events = json.loads(trace.read_text())["traceEvents"]
        for rank, actions in enumerate(answer["ranks"]):
            own = [event for event in events if event["ph"] == "X" and event["pid"] == rank]
            own.sort(key=lambda event: event["ts"])
            self.assertEqual([event["name"] for event in own], actions)
            self.assertTrue(all(event["tid"] == rank for event in own))

    def test_csv_and_back(self):
        for more in ('schedule = "gpipe"\n', 'schedule = "zbv_zero_bubble"\nvirtual_stages = 2\n',
                     'schedule = "dual_pipe_v"\nvirtual_stages = 2\n'):
            plan = self.plan(mesh(3, 8, more))
            file = self.folder / "a.csv"
            answer = self.json("schedule", plan, "--csv", file, "--force")
            with open(file, newline="") as lines:
                rows = [[cell for cell in row if cell] for row in csv.reader(lines)]
            self.assertEqual(rows, answer["ranks"])
            again = self.json("schedule", plan, "--from-csv", file)
            for key in ("ranks", "makespan", "bubble_fraction", "peak_in_flight", "stages"):
                self.assertEqual(again[key], answer[key])

    def test_a_file_that_cannot_be_written(self):
        plan = self.plan(mesh(2, 4))
        old = self.write("old.svg", "old")
        self.am_plan("schedule", plan, "--svg", old, "--trace", self.folder, status=2)
        result = self.am_plan("schedule", plan, "--csv", self.folder / "no" / "a.csv", status=2)
        self.assertIn("a.csv", result.err)
        self.assertEqual(result.out, "")
        self.assertEqual([p.name for p in self.folder.iterdir() if "tmp" in p.name], [])

    def test_a_broken_csv(self):
        plan = self.plan(mesh(2, 2))
        file = self.write("bad.csv", "0F0,0F1,,0B0,,0B1\n,1B0,1F0,1F1,1B1\n")
        answer = self.json("schedule", plan, "--from-csv", file, status=1)
        self.assertFalse(answer["ok"])
        item, = answer["diagnostics"]
        self.assertEqual((item["rule"], item["file"], item["line"], item["column"]),
                         ("schedule.order", str(file), 2, 2))
        result = self.am_plan("schedule", plan, "--from-csv", file, status=1)
        self.assertIn("bad.csv:2:2: error[schedule.order]: 1B0 comes before 1F0", result.err)
        self.assertIn("^^^", result.err)

    def test_a_csv_of_another_pipeline(self):
        file = self.write("two.csv", "0F0,,0B0\n,1F0,1B0\n")
        answer = self.json("schedule", self.plan(mesh(4, 8)), "--from-csv", file, status=1)
        item, = answer["diagnostics"]
        self.assertEqual((item["rule"], item["help"]), ("schedule.plan", "--set mesh.pp_size=2"))

    def test_a_csv_that_does_not_divide_the_step(self):
        file = self.write("three.csv", "0F0,0F1,0F2,,0B0,0B1,0B2\n,1F0,1F1,1F2,1B0,1B1,1B2\n")
        for batch, rounds, line in ((8, None, "which is no multiple of this schedule's 3"),
                                    (2, None, "which is no multiple of this schedule's 3"),
                                    (6, 2, "so it runs this schedule 2 times")):
            plan = self.plan(mesh(2, batch))
            self.assertEqual(self.json("schedule", plan, "--from-csv", file)["rounds_per_step"], rounds)
            self.assertIn(f"a step has {batch} micro-batches, {line}\n",
                          self.am_plan("schedule", plan, "--from-csv", file).out)

    def test_a_csv_that_is_not_there(self):
        result = self.am_plan("schedule", self.plan(mesh(2)), "--from-csv", "none.csv", status=2)
        self.assertIn("none.csv", result.err)


if __name__ == "__main__":
    unittest.main()
