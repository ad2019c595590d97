"""am-repl on a job that hangs. Each rank answers on a thread of its own, not on its training
thread, and reports its state and the rank for which it waits."""

import os
import signal
import time
import unittest

from attach_support import AttachCase
from run_support import BIN


class HungTest(AttachCase):
    def freeze(self, rank):
        """Stops the rank's process until the test ends."""
        process = self.processes_of("run")[rank]
        os.kill(process, signal.SIGSTOP)
        self.addCleanup(self.thaw, process)
        return process

    def thaw(self, process):
        try:
            os.kill(process, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def test_a_stopped_rank_is_named_within_two_seconds(self):
        job = self.start_job()
        step = self.repl("run", "step 1")[0]["step"]
        self.wait_for(lambda: self.status()["step"] > step + 3)  # the client has detached, so the job runs again
        process = self.freeze(1)
        time.sleep(1.5)  # longer than 1 s, the shortest wait that `ranks` reports
        begun = time.monotonic()
        ranks = self.repl("run", "ranks")[0]
        seconds = time.monotonic() - begun
        self.assertLess(seconds, 2.0 + 1.0)  # plus the start of am-repl
        self.assertEqual(ranks["missing"], [1])
        self.assertIn("rank 1: its process is stopped", ranks["text"])
        self.assertIn("rank 0 waits for rank 1", ranks["text"])
        rows = {row["rank"]: row for row in ranks["ranks"]}
        self.assertEqual(rows[1]["state"], "stopped")
        self.assertEqual(rows[0]["state"], "answers")
        self.assertGreater(rows[0]["seconds"], 1.0)
        # `collectives 0` shows the collective in which rank 0 waits, with its sequence number and
        # size.
        last = self.repl("run", "collectives 0")[0]["ranks"][0]["collectives"]
        (waiting,) = [each for each in last if each["waiting"]]  # other collectives may be in progress too
        self.assertEqual(f"{waiting['op']} {waiting['group']} #{waiting['sequence']}",
                         rows[0]["collective"])
        self.assertGreater(waiting["bytes"], 0)
        self.assertGreater(waiting["seconds_ago"], 1.0)
        frames = "\n".join(self.repl("run", "stack 0")[0]["frames"])
        self.assertIn("am::train::Trainer::train_step", frames)
        self.assertIn("am::runtime::Pending::wait", frames)
        error = self.repl("run", "stack 1", status=1)[0]["error"]
        self.assertIn("its process is stopped", error["message"])
        # The job continues normally.
        os.kill(process, signal.SIGCONT)
        self.assertTrue(self.repl("run", "step 2")[0]["paused"])
        self.assertEqual(self.repl("run", "ranks")[0]["missing"], [])
        self.stop(job)

    def test_a_rank_that_computes_without_an_end_is_named_and_shows_where(self):
        endless = self.path / "endless"
        endless.touch()
        job = self.start_job(env={"LD_PRELOAD": str(BIN.parent / "lib" / "loops.so"), "AM_TEST_LOOP": str(endless)})
        os.kill(self.processes_of("run")[1], signal.SIGSYS)
        time.sleep(1.5)  # longer than 1 s, the shortest wait that `ranks` reports
        self.wait_for(lambda: self.repl("run", "ranks")[0]["missing"] == [1])
        begun = time.monotonic()
        ranks = self.repl("run", "ranks")[0]
        stack = self.repl("run", "stack 1")[0]["frames"]
        last = self.repl("run", "collectives")[0]["ranks"]
        seconds = time.monotonic() - begun
        self.assertLess(seconds, 2.0 + 3.0)  # plus three starts of am-repl
        self.assertEqual(ranks["missing"], [1])
        self.assertIn("rank 0 waits for rank 1", ranks["text"])
        self.assertEqual([row["state"] for row in ranks["ranks"]], ["answers"] * 2)
        # The stack begins with the endless function; the job's own frames follow.
        self.assertIn("loop_without_an_end", "\n".join(stack[:3]))
        self.assertIn("am::train::Trainer::train_step", "\n".join(stack))
        self.assertTrue(any(each["waiting"] for each in last[0]["collectives"]))
        endless.unlink()
        self.assertTrue(self.repl("run", "step 2")[0]["paused"])
        self.assertEqual(self.repl("run", "ranks")[0]["missing"], [])
        self.stop(job)

    def test_the_states_of_all_ranks_are_written_at_intervals(self):
        job = self.start_job(more="[runtime]\ndump_minutes = 0.02\n")
        states = self.path / "run" / "states"
        self.wait_for(lambda: states.exists() and len(list(states.glob("*Z.txt"))) > 1)
        self.freeze(1)
        self.wait_for(lambda: "its process is stopped" in max(states.glob("*Z.txt")).read_text())
        text = max(states.glob("*Z.txt")).read_text()
        for part in ("== ranks\n", "== collectives\n", "== stack\n", "rank 0 waits for rank 1",
                     "am::train::Trainer::train_step"):
            self.assertIn(part, text)
        job.kill()

    def test_a_stopped_rank_0_is_said_by_who_wants_to_attach(self):
        self.start_job()
        self.freeze(0)
        result = self.repl_errors("run", "ranks")
        self.assertIn("does not answer", result)
        self.assertIn("stopped?", result)

    def test_ranks_that_are_held_say_where(self):
        job = self.start_job()
        owner = self.attach()
        self.say(owner, "pause")
        ranks = self.repl("run", "ranks")[0]
        self.assertEqual([row["phase"] for row in ranks["ranks"]], ["between steps"] * 2)
        self.assertEqual(ranks["missing"], [])
        self.assertTrue(all(row["memory_bytes"] > 1 << 20 for row in ranks["ranks"]))
        for rank in (0, 1):
            frames = "\n".join(self.repl("run", f"stack {rank}")[0]["frames"])
            self.assertIn("am::live::AttachServer::visit", frames)
        both = self.repl("run", "collectives")[0]["ranks"]
        self.assertEqual([each["rank"] for each in both], [0, 1])
        self.assertEqual(self.repl("run", "stack dp=1")[0]["rank"], 1)
        stacks = self.repl("run", "stack 0-1")[0]["stacks"]
        self.assertEqual(sorted(rank for stack in stacks for rank in stack["ranks"]), [0, 1])
        both = self.repl("run", "collectives tp=0 dp=0")[0]["ranks"]
        self.assertEqual([each["rank"] for each in both], [0])
        for wrong in ("stack 2", "stack x", "collectives -1"):
            error = self.repl("run", wrong, status=1)[0]["error"]
            self.assertIn("there is no rank", error["message"])
            self.assertIn("0 to 1", error["help"])
        self.stop(job)


if __name__ == "__main__":
    unittest.main()
