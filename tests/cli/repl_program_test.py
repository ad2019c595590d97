"""am-repl on the job of a program that uses the C interface am_live.h: tests/tools/live_program.cpp."""

import os
import re
import signal
import threading
import time
import unittest

from attach_support import AttachCase
from job_client import Talker
from run_support import BIN


class ProgramJob(AttachCase):
    def start_program(self, kind, *arguments, ranks=2, steps=100000, nap=5):
        """Starts a job of live_program, and returns when clients can attach to it."""
        job = self.start("--nproc", ranks, "--run-dir", "run", "--exec", BIN / "live_program", kind, steps,
                         "--nap", nap, *arguments)
        self.wait_for(lambda: job.poll() is not None or (self.path / "run/control/control.json").exists())
        self.assertIsNone(job.poll(), "the job has ended")
        return job

    def test_tensors_in_parts_are_read_as_one(self):
        self.start_program("fsdp", ranks=3)
        owner = self.attach()
        step = int(re.search(r"after step (\d+)", self.say(owner, "pause")).group(1))
        info, ls, stats, shown = self.repl("run", "info", "ls", "stats w", "show w")
        self.assertEqual((info["kind"], info["step"], info["model_type"], info["world_size"]), ("job", step, "toy", 3))
        self.assertEqual([(row["name"], row["shape"]) for row in ls["parameters"]], [("norm.weight", [3]), ("w", [7, 4])])
        values = [i + 0.5 * step for i in range(28)]
        (row,) = stats["stats"]
        self.assertEqual((row["numel"], row["min"], row["max"]), (28, values[0], values[-1]))
        self.assertAlmostEqual(row["mean"], sum(values) / 28, delta=1e-6 * values[-1])
        self.assertEqual([shard["shape"] for shard in shown["shards"]], [[3, 4], [3, 4], [1, 4]])
        (printed,) = self.repl("run", "print w[2:4, 1]")
        self.assertEqual(printed["values"], [values[9], values[13]])
        gradients = self.repl("run", "grad")[0]
        self.assertEqual(gradients["of"], f"of step {step}")
        self.assertAlmostEqual(gradients["norm"], step * 31 ** 0.5, delta=1e-6 * gradients["norm"])
        whole = self.repl("run", "unshard w")[0]
        self.assertEqual([box["shape"] for box in whole["boxes_after"]], [[7, 4]] * 3)
        status = self.repl("run", "status")[0]
        self.assertEqual((status["step"], status["world_size"]), (step, 3))
        self.assertAlmostEqual(status["loss"], 10.0 / step, delta=1e-6)
        self.assertIsNone(status["tokens_per_second"])
        owner.stdin.close()  # ends the pause
        owner.wait()
        refused = self.repl("run", "export out --format safetensors", status=1)[0]["error"]
        self.assertIn("--write", refused["help"])
        paused, exported, same = self.repl(
            "run", "pause", "export out --format safetensors", "diff out", options=["--write"])
        self.assertEqual((exported["path"], exported["files"]), (str(self.path / "out"), ["model.safetensors"]))
        self.assertEqual({row["status"] for row in same["parameters"]}, {"equal"})
        self.assertEqual(self.repl("out", "print w[0, :2]")[0]["values"],
                         [0.5 * paused["step"], 1.0 + 0.5 * paused["step"]])
        refused = self.repl("run", "export whole", status=1, options=["--write"])[0]["error"]
        self.assertIn("no config of transformers", refused["message"])
        self.assertFalse((self.path / "whole").exists())
        stepped = self.repl("run", "pause", "step 3")
        self.assertEqual(stepped[1]["step"], stepped[0]["step"] + 3)

    def test_a_replica_that_differs_is_found(self):
        self.start_program("ddp", "--diverge", 1, 40, ranks=3)
        self.wait_for(lambda: self.status()["step"] > 41)
        found = self.repl("run", "checksum", status=3)[0]
        rows = {row["name"]: row for row in found["parameters"]}
        self.assertTrue(rows["norm.weight"]["equal"])
        self.assertFalse(rows["w"]["equal"])
        self.assertEqual(rows["w"]["first_difference"]["index"], [1, 1])
        self.assertEqual(rows["w"]["first_difference"]["ranks"], [1])

    def test_probes_and_pauses(self):
        job = self.start_program("ddp", steps=3000, nap=2)
        watched = self.repl("run", "watch loss every 7 --times 3")[0]["samples"]
        steps = [each["step"] for each in watched]
        self.assertEqual([step % 7 for step in steps[1:]], [0, 0])
        self.assertEqual(steps[2] - steps[1], 7)
        for each in watched:
            self.assertAlmostEqual(each["value"], 10.0 / each["step"], delta=1e-6)
        client = self.attach()
        self.say(client, f"break when step >= {steps[2] + 300}")
        self.wait_for(lambda: self.status()["paused"] is not None)
        self.assertEqual(self.status()["step"], steps[2] + 300)
        refused = self.repl("run", "save", status=1, options=["--write"])[0]["error"]["message"]
        self.assertIn("only the program of this job", refused)
        client.stdin.close()
        self.assertEqual(job.wait(timeout=60), 0, job.stderr.read())

    def test_clients_do_not_change_the_job(self):
        def result():
            return re.search(r"sum (\S+)", (self.path / "run/logs/rank-0.log").read_text()).group(1)

        job = self.start_program("fsdp", steps=300, nap=2)
        self.assertEqual(job.wait(timeout=60), 0)
        alone = result()
        job = self.start_program("fsdp", steps=300, nap=2)
        answers = []

        def ask():
            with Talker(self.path / "run") as client:
                number = 0
                try:
                    while True:
                        number += 1
                        client.send(id=number, input="norms" if number % 3 else "checksum w")
                        answers.append(client.reply(number))
                except (OSError, ValueError, Exception):  # the job has ended
                    pass

        clients = [threading.Thread(target=ask) for _ in range(4)]
        for each in clients:
            each.start()
        self.assertEqual(job.wait(timeout=120), 0)
        for each in clients:
            each.join()
        self.assertGreater(len(answers), 100)
        self.assertEqual(result(), alone)

    def test_a_rank_that_hangs_is_named(self):
        job = self.start_program("ddp", "--hang", 1, 30)
        self.wait_for(lambda: self.status()["step"] >= 29)
        frames = self.repl("run", "stack 1")[0]["frames"]
        self.assertIn("loop_without_an_end", "\n".join(frames[:6]))
        os.kill(self.process_of(job, 1), signal.SIGSTOP)
        begun = time.monotonic()
        ranks = self.repl("run", "ranks")[0]
        self.assertLess(time.monotonic() - begun, 2.0 + 1.0)  # plus the start of am-repl
        self.assertEqual(ranks["missing"], [1])
        self.assertIn("rank 1: its process is stopped", ranks["text"])

    def test_tensors_that_do_not_fit_together_are_refused(self):
        result = self.am_run("--nproc", "2", "--run-dir", "run", "--exec", BIN / "live_program", "clash", "3")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("w: the shape is [7, 4] on rank 0 and [8, 4] on rank 1", result.stderr)


if __name__ == "__main__":
    unittest.main()
