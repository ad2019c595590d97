"""metrics.trace writes Chrome traces of some steps with libtorch's profiler."""

import json
import subprocess
import unittest

from run_support import BIN, RunTest, plan_text

STAGES = "world_size = 4\npp_size = 2"
ROUNDING = 5e-3  # microseconds; floats as large as the time stamps cannot represent all three decimals


class Trace(RunTest):
    def traced(self, trace, mesh, more="", steps=4):
        text = plan_text(f"[metrics]\ntrace = {trace}\n{more}", mesh=mesh, steps=steps)
        plan = self.write_plan(text)
        result = self.train(plan, "run")
        return plan, result

    def events(self, name):
        trace = json.loads((self.path / "run" / "traces" / name).read_text())
        return trace, [e for e in trace["traceEvents"] if e.get("ph") == "X"]

    def ranges(self, events):
        return [e for e in events if e.get("cat") == "user_annotation"]

    def check_nesting(self, ranges):
        """Checks that any two events of a thread are disjoint or nested: Perfetto drops events that overlap in part."""
        for thread in {e["tid"] for e in ranges}:
            open_ends = []
            own = [e for e in ranges if e["tid"] == thread]
            for event in sorted(own, key=lambda e: (e["ts"], -e["dur"])):
                while open_ends and open_ends[-1] <= event["ts"] + ROUNDING:
                    open_ends.pop()
                end = event["ts"] + event["dur"]
                self.assertTrue(not open_ends or end <= open_ends[-1] + ROUNDING, event)
                open_ends.append(end)

    def test_names_are_those_of_the_schedule(self):
        plan, _ = self.traced("{ start = 2, steps = 2, ranks = [0, 3] }", STAGES)
        names = sorted(p.name for p in (self.path / "run" / "traces").iterdir())
        self.assertEqual(names, ["step-2-3.rank-0.json", "step-2-3.rank-3.json"])
        planned = self.path / "planned.json"
        subprocess.run([BIN / "am-plan", "schedule", plan, "--trace", planned], check=True, capture_output=True)
        schedule = json.loads(planned.read_text())["traceEvents"]
        for rank, position, layer in ((0, 0, 0), (3, 1, 1)):
            trace, events = self.events(f"step-2-3.rank-{rank}.json")
            self.assertEqual(trace["distributedInfo"], {"rank": rank, "world_size": 4})
            ranges = self.ranges(events)
            self.check_nesting(events)
            passes = [e["name"] for e in schedule if e["ph"] == "X" and e["pid"] == position]
            self.assertTrue(passes)
            measured = [e["name"] for e in sorted(ranges, key=lambda e: e["ts"])]
            self.assertEqual([name for name in measured if name in passes], 2 * passes)
            self.assertEqual([n for n in measured if n.startswith("step ")], ["step 2", "step 3"])
            for name in (f"forward model.layers.{layer}", f"backward model.layers.{layer}",
                         f"unshard model.layers.{layer}", f"reduce model.layers.{layer}", "optimizer", "data",
                         "all_gather dp_shard_cp", "wait all_gather dp_shard_cp", "reduce_scatter dp_shard_cp",
                         "loss and gradient norm"):
                self.assertIn(name, measured)
            self.assertEqual("unshard the root unit" in measured, rank == 3)
            self.assertEqual([n for n in measured if n.endswith(" ")], [])
            # A unit's forward is inside a pass of the schedule, and this pass is inside a step.
            by_name = {name: [e for e in ranges if e["name"] == name] for name in set(measured)}
            for inner, outer in ((f"forward model.layers.{layer}", passes[0]), (passes[0], "step 2")):
                first, around = by_name[inner][0], by_name[outer][0]
                self.assertLessEqual(around["ts"], first["ts"])
                self.assertLessEqual(first["ts"] + first["dur"], around["ts"] + around["dur"] + 1e-3)
            self.assertTrue([e for e in events if e["name"].startswith("aten::")])

    def test_nothing_else_changes(self):
        self.traced("{ start = 1, steps = 3 }", "world_size = 2", steps=4)
        traced = [line["loss"] for line in self.metrics("run")]
        self.train(self.write_plan(plan_text(steps=4)), "plain")
        self.assertEqual([line["loss"] for line in self.metrics("plain")], traced)
        self.assertFalse((self.path / "plain" / "traces").exists())
        names = sorted(p.name for p in (self.path / "run" / "traces").iterdir())
        self.assertEqual(names, ["step-1-3.rank-0.json", "step-1-3.rank-1.json"])

    def test_a_job_that_ends_in_a_traced_step(self):
        _, result = self.traced("{ start = 2, steps = 100, ranks = [0] }", "world_size = 2", steps=3)
        self.assertIn("step-2-3.rank-0.json", result.stderr)
        self.check_nesting(self.ranges(self.events("step-2-3.rank-0.json")[1]))

    def test_a_folder_that_cannot_be_written(self):
        (self.path / "run").mkdir()
        (self.path / "run" / "traces").write_text("a file")
        _, result = self.traced("{ start = 1 }", "world_size = 1", steps=2)
        self.assertIn("note        no trace was written", result.stderr)
        self.assertEqual(len(self.metrics("run")), 2)


if __name__ == "__main__":
    unittest.main()
