"""am-repl attaches to the running job of a run folder. Commands run between two steps on all
ranks, and training continues as if no client had attached."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import unittest

from attach_support import LONG, AttachCase
from job_client import Talker
from run_support import BIN, plan_text

LAYER = "model.layers.0.mlp.down_proj.weight"


class AttachTest(AttachCase):
    def disturb(self, run):
        """Connects clients that do not follow the protocol."""
        place = json.loads((self.path / run / "control" / "control.json").read_text())["socket"]
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 5000, b"AMRPC\0\0\1\xff\xff\xff\xff",
                      b"AMR", b"", b'AMRPC\0\0\1\x0e\0\0\0{"protocol":1}\x09\0\0\0{"id":"a"}',
                      b'AMRPC\0\0\1\x0e\0\0\0{"protocol":1}\x13\0\0\0{"id":1,"input":[]}'
                      b'\x12\0\0\0{"id":1,"cancel":3}\x12\0\0\0{"id":1,"renew":{}}') * 10:
            stranger = socket.socket(socket.AF_UNIX)
            self.addCleanup(stranger.close)
            stranger.connect(place)
            try:
                stranger.sendall(words)
            except BrokenPipeError:
                pass

    def check_undisturbed(self, **plan):
        job = self.start_job(**plan)
        self.disturb("run")
        looked = self.repl(
            "run", "pause", "info", "step 5", "stats *", f"print {LAYER}[0:4, :8]",
            "unshard model.layers.0", f"print {LAYER}[3:6, :3]", "memory", "reshard", "save",
            "grad", "stats optim.state", "set tokenizer bytes", "logprob '3 + 4 = 7'", "grad --of '3 + 4 = 7'",
            "continue", options=["--write"])
        step = looked[2]["step"]
        self.assertEqual(looked[9]["step"], step)
        # These commands run between two steps of the job, which is not paused.
        for command in ("stats *", f"unshard {LAYER}", "hist model.norm.weight", "mesh", "step 3", "optim",
                        "set tokenizer bytes; grad *norm* --of '1 2 3'; grad *norm*"):
            self.repl("run", command)
        # Commands on the checkpoint that `save` wrote at this step return equal values.
        self.assertTrue(looked[9]["checkpoint"].endswith(f"step-{step}"))
        rest = self.repl(looked[9]["checkpoint"], "stats *", f"print {LAYER}[0:4, :8]",
                         f"print {LAYER}[3:6, :3]", "stats optim.state", "set tokenizer bytes",
                         "logprob '3 + 4 = 7'", "grad --of '3 + 4 = 7'")
        for mine, theirs in ((looked[3], rest[0]), (looked[11], rest[3])):
            for live, stored in zip(mine["stats"], theirs["stats"], strict=True):
                for key, value in live.items():  # sums over the ranks' parts are added in another order
                    if key in ("mean", "std", "norm"):
                        self.assertAlmostEqual(value, stored[key], delta=1e-12 * abs(value))
                    else:
                        self.assertEqual(value, stored[key])
        for live, stored in zip(looked[13]["logprobs"][1:], rest[5]["logprobs"][1:], strict=True):
            self.assertAlmostEqual(live, stored, delta=1e-4)
        self.assertAlmostEqual(looked[14]["loss"], rest[6]["loss"], delta=1e-5)
        self.check_gradients(looked[14], rest[6], 1e-4)
        self.assertEqual(looked[4]["values"], rest[1]["values"])
        self.assertEqual(looked[6]["values"], rest[2]["values"])
        # `grad` shows gradients that are clipped to norm 1; the metrics contain the norm before
        # clipping. The gradients equal those of another am-repl, which starts ranks from the plan
        # and trains the same number of steps.
        losses = self.stop(job)
        self.assertGreater(len(losses), step)
        norm = self.metrics("run")[step - 1]["grad_norm"]
        self.assertAlmostEqual(looked[10]["norm"], min(norm, 1.0), delta=1e-5 * norm)
        again = self.repl("run.toml", f"step {step}", "grad")
        self.assertEqual(again[0]["loss"], losses[step - 1])
        self.check_gradients(looked[10], again[1], 1e-9)
        # Losses and final checkpoint files equal, bit by bit, those of a job without clients.
        quiet = self.write_plan(plan_text(steps=LONG, **plan), "quiet.toml")
        self.train(quiet, "quiet", "--steps", len(losses), "--no-attach",
                   "--set", "metrics.every=100000")
        self.assertFalse((self.path / "quiet" / "control").exists())
        self.assertEqual(losses, [line["loss"] for line in self.metrics("quiet")])
        self.assertEqual(self.checkpoint_bytes("run", len(losses)),
                         self.checkpoint_bytes("quiet", len(losses)))

    def test_gradients_are_said_to_be_of_what_they_are_of(self):
        """One client alternates between the gradients of the last step and the gradients of a
        text, while it pauses and steps the job. Each answer names the source of its gradients."""
        job = self.start_job()
        answers = self.repl(
            "run", "set tokenizer bytes", "pause", "grad *norm*", "step 2", "grad *norm*", "grad *norm* --of '1 2 3'",
            "grad grad.model.norm.weight --of '4 5 6'", "grad *norm*", "step", "grad *norm*")
        step = answers[1]["step"]
        self.assertEqual([answer["of"] for answer in answers if answer["command"] == "grad"],
                         [f"of step {step}", f"of step {step + 2}", "of the text", "of the text", "of the text",
                          f"of step {step + 3}"])
        self.assertNotEqual(answers[4]["norm"], answers[9]["norm"])
        self.stop(job)

    def check_gradients(self, mine, theirs, tolerance):
        for a, b in zip(mine["gradients"], theirs["gradients"], strict=True):
            self.assertEqual((a["name"], a["numel"]), (b["name"], b["numel"]))
            for key in ("min", "max", "norm"):
                self.assertAlmostEqual(a[key], b[key], delta=tolerance * a["norm"])

    def test_training_goes_on_as_if_nobody_had_come(self):
        self.check_undisturbed()

    def test_training_of_ranks_with_the_whole_model_too(self):
        self.check_undisturbed(strategy="ddp")

    def test_training_under_tensor_parallelism(self):
        self.check_undisturbed(mesh="world_size = 2\ntp_size = 2")

    def test_training_of_stages_that_saves_in_the_background(self):
        self.check_undisturbed(
            mesh="world_size = 2\npp_size = 2",
            more='[pipeline]\nschedule = "1f1b"\nmicrobatches = 4\n[checkpoint]\nasync = true')

    def test_one_rank(self):
        self.check_undisturbed(mesh="world_size = 1")

    def test_a_pause_is_its_owners_and_ends_with_it(self):
        job = self.start_job()
        owner = self.attach()
        self.assertIn("paused after step", self.say(owner, "pause"))
        held = self.status()
        self.assertIn(f"process {owner.pid}", held["paused"])
        self.assertEqual(held["phase"], "between steps")
        # While one client has paused the job, another client can read tensors, but cannot resume
        # the job.
        answers = self.repl("run", "stats model.norm.weight", "continue", status=1)
        self.assertTrue(answers[0]["ok"])
        self.assertIn("paused by am-repl", answers[1]["error"]["message"])
        self.assertEqual(self.status()["step"], held["step"])
        owner.kill()
        self.wait_for(lambda: self.status()["paused"] is None, seconds=20)
        self.wait_for(lambda: self.status()["step"] > held["step"], seconds=20)
        job.send_signal(signal.SIGTERM)
        _, log = job.communicate(timeout=60)
        self.assertIn(f"paused at step {held['step']} by am-repl", log)
        self.assertIn("the client that paused the job has left", log)

    def test_a_signal_ends_a_pause_with_a_checkpoint(self):
        job = self.start_job()
        owner = self.attach()
        self.say(owner, "pause")
        step = self.status()["step"]
        self.assertEqual(len(self.stop(job)), step)
        self.assertTrue((self.path / "run" / "checkpoints" / f"step-{step}").is_dir())
        # The client that was attached is notified.
        owner.stdin.write("stats *\n")
        owner.stdin.close()
        self.assertEqual(owner.wait(timeout=20), 1)
        self.assertIn(f"the job has ended as asked, after step {step}", owner.stderr.read())

    def test_a_job_that_ends_says_so(self):
        job = self.start_job(steps=400)
        answer = self.repl("run", f"step {LONG}", status=1)[0]
        self.assertIn("the job has ended after step 400", answer["error"]["message"])
        self.assertEqual(job.wait(timeout=60), 0)
        # The remaining state can still be read.
        self.assertEqual(self.repl("run", "info")[0]["kind"], "checkpoint")

    def test_what_changes_the_job_is_asked_for(self):
        job = self.start_job()
        before = sorted(os.listdir(self.path / "run" / "checkpoints"))
        answer = self.repl("run", "save", status=1)[0]
        self.assertIn("changes the job", answer["error"]["message"])
        self.assertIn("--write", answer["error"]["help"])
        answer = self.repl("run", "print model.norm.weight --to norm.npy", status=1)[0]
        self.assertIn("needs --write", answer["error"]["message"] + answer["error"]["help"])
        self.assertFalse((self.path / "norm.npy").exists())
        answers = self.repl("run", "break when validation_loss != 1", "watch loss --times 3", "status")
        self.assertIsNone(answers[2]["paused"])  # a step without validation does not meet the condition
        answer = self.repl("run", "export out", status=1)[0]
        self.assertIn("--write", answer["error"]["help"])
        self.assertFalse((self.path / "out").exists())
        self.assertEqual(before, sorted(os.listdir(self.path / "run" / "checkpoints")))
        self.stop(job)

    def test_a_learning_rate_is_set_on_all_ranks(self):
        job = self.start_job()
        refused = self.repl("run", "set optimizer.lr 0", status=1)[0]
        self.assertIn("changes the job", refused["error"]["message"])
        for wrong in ("x", "-1", "nan"):
            answer = self.repl("run", f"set optimizer.lr {wrong}", status=1, options=["--write"])[0]
            self.assertIn("is not a learning rate", answer["error"]["message"])
        # With learning rate 0, three steps change no parameter on any rank.
        answers = self.repl("run", "pause", "set optimizer.lr 0", "stats *", "step 3", "stats *",
                            "set digits 3", "set optimizer.lr 1e-3", "step 2", "stats *",
                            options=["--write"])
        self.assertEqual(answers[2]["stats"], answers[4]["stats"])
        self.assertNotEqual(answers[2]["stats"], answers[8]["stats"])
        step = answers[1]["step"]
        self.stop(job)
        rates = {line["step"]: line["lr"] for line in self.metrics("run")}
        self.assertEqual([rates[step + i] for i in range(6)], [1e-2, 0, 0, 0, 1e-3, 1e-3])

    def test_what_was_asked_can_be_taken_back(self):
        job = self.start_job()
        with Talker(self.path / "run") as talker:
            talker.send(id=1, input="step 2")
            self.assertTrue(talker.reply(1)["json"]["paused"])
            # If `step` is cancelled before its last step, the job pauses after the current step.
            talker.send(id=2, input=f"step {LONG}")
            talker.send(id=3, input="stats *")
            self.assertIn("json", talker.reply(3))
            talker.send(id=4, cancel=2)
            held = talker.reply(2)["json"]
            self.assertTrue(held["paused"])
            self.assertEqual(self.status()["step"], held["step"])
            # An input that is not text does not close the connection: the next request is answered.
            talker.send(id=5, input=5)
            talker.send(id=6, input="ls 'open")
            self.assertIn("quote", talker.reply(6)["error"]["message"])
        self.wait_for(lambda: self.status()["paused"] is None, seconds=20)
        self.stop(job)

    def test_a_condition_that_is_set_pauses_the_job_only_later(self):
        job = self.start_job()
        with Talker(self.path / "run") as talker:
            for command, when in (("break when loss < 0", "after the first step where loss < 0"),
                                  ("tripwire nan > 0", "once this holds for a tensor: nan > 0")):
                talker.send(id=1, input=command)
                said = talker.reply(1)["text"]
                self.assertIn(f"set: the job will pause {when}", said)
                talker.send(id=2, input="status")
                self.assertIsNone(talker.reply(2)["json"]["paused"])
        self.stop(job)

    def test_a_break_pauses_after_its_step(self):
        job = self.start_job()
        answers = self.repl("run", "break when loss < 100", "step 1000", "status", "break",
                            "continue")
        self.assertTrue(answers[1]["paused"])
        self.assertIn("process", answers[2]["paused"])
        self.assertEqual(answers[1]["step"], answers[2]["step"])
        self.assertIsNone(answers[3]["when"])
        wrong = self.repl("run", "break when los > 1", status=1)[0]
        self.assertIn("did you mean `loss`?", wrong["error"]["help"])
        self.stop(job)

    def test_watch_takes_a_sample_every_few_steps(self):
        job = self.start_job()
        answers = self.repl("run", f"watch l2 {LAYER} every 3 --times 4", "watch loss --times 3",
                            "pause", f"norms {LAYER}", "continue")
        steps = [sample["step"] for sample in answers[0]["samples"]]
        self.assertEqual(len(steps), 4)
        self.assertEqual([step % 3 for step in steps[1:]], [0, 0, 0])
        self.assertEqual([later - step for step, later in zip(steps[1:], steps[2:], strict=False)],
                         [3, 3])
        values = [sample["value"] for sample in answers[0]["samples"]]
        self.assertEqual(len(set(values)), 4)
        self.assertAlmostEqual(values[-1], answers[3]["total"]["l2"], delta=0.1 * values[-1])
        watched = answers[1]["samples"]
        for command, words in (("watch l3", "there is no number `l3`"),
                               ("watch l2 nothing*", "no parameter"),
                               ("watch loss every x", "not a number of steps"),
                               ("watch loss every", "needs a number"),
                               ("watch loss model.norm.weight", "is a metric of the step"),
                               ("pause; watch loss", "is paused")):
            self.assertIn(words, self.repl("run", command, status=1)[-1]["error"]["message"])
        self.wait_for(lambda: self.status()["paused"] is None)
        # A job that sends samples is not reported as silent, however long the command takes.
        quiet = subprocess.run([BIN / "am-repl", "run", "-c", "watch step_seconds --times 500"], capture_output=True,
                               text=True, timeout=100, cwd=self.path)
        self.assertEqual(quiet.stderr.count("step_seconds"), 500)
        # stdout does not repeat the 500 samples, which stderr showed: the answer is a curve with
        # its range.
        self.assertLess(len(quiet.stdout.splitlines()), 20)
        self.assertIn("step_seconds", quiet.stdout)
        self.assertNotIn("has not reached the end", quiet.stderr)
        # A cancelled watch answers with its samples so far, as does a watch whose job ends.
        with Talker(self.path / "run") as talker:
            talker.send(id=1, input="watch loss --times 10000")
            talker.send(id=2, input="watch lr")
            self.assertIn("still running", talker.reply(2)["error"]["message"])
            talker.send(id=3, input="norms")
            self.assertIn("json", talker.reply(3))
            talker.send(id=4, cancel=1)
            samples = talker.reply(1)["json"]["samples"]
            self.assertGreater(len(samples), 0)
            talker.send(id=5, input="watch rms --times 10000")
            talker.send(id=6, input="norms")
            self.assertIn("json", talker.reply(6))
            self.stop(job)
            self.assertGreater(len(talker.reply(5)["json"]["samples"]), 0)
        losses = {line["step"]: line["loss"] for line in self.metrics("run")}
        for sample in watched + samples:
            self.assertAlmostEqual(sample["value"], losses[sample["step"]], places=12)

    def test_a_tripwire_pauses_and_names_the_tensor(self):
        job = self.start_job()
        answers = self.repl("run", "tripwire nan", "tripwire rms > 1e6 *.weight every 2",
                            "tripwire", "tripwire off", "tripwire", "status")
        self.assertEqual(len(answers[2]["tripwires"]), 2)
        self.assertEqual(answers[4]["tripwires"], [])
        self.assertIsNone(answers[5]["paused"])
        for command, words in (("tripwire rms >", "is not a condition"),
                               ("tripwire loss > 1", "nor a measure of a tensor"),
                               ("tripwire nan nothing*", "no parameter")):
            self.assertIn(words, self.repl("run", command, status=1)[-1]["error"]["message"])
        client = self.attach()
        now = self.repl("run", f"norms {LAYER}")[0]["total"]["l2"]
        # The next step changes the weights, which meets the condition.
        self.say(client, f"tripwire l2 != {now:.17g} {LAYER}")
        self.wait_for(lambda: self.status()["paused"] is not None)
        paused = self.status()
        said = client.stderr.readline()
        self.assertIn("attached", said)
        said = client.stderr.readline()  # the client prints the tripwire's message although no command was entered
        client.stdin.close()
        client.wait(timeout=30)
        self.assertIn(f"holds for {LAYER}; the job is paused for you", said)
        self.assertIn(f"step {paused['step']}:", said)
        self.wait_for(lambda: self.status()["paused"] is None, seconds=20)
        self.stop(job)

    def test_the_prompt_has_the_step_that_the_job_is_at(self):
        job = self.start_job()
        self.wait_for(lambda: len(self.metrics("run")) > 5)
        with Talker(self.path / "run") as talker:
            welcome = talker.message()
        (step,) = re.findall("attached to .* at step ([0-9]+)", welcome["note"])
        self.assertGreater(int(step), 5)
        (titled,) = re.findall("step ([0-9]+)", welcome["title"])
        self.assertLessEqual(abs(int(titled) - int(step)), 1)
        with Talker(self.path / "run") as talker:
            for command in ("status", "ranks", "norms"):
                talker.send(id=1, input=command)
                reply = talker.reply(1)
                (titled,) = re.findall("step ([0-9]+)", reply["title"])
                self.assertGreaterEqual(int(titled), int(step))
                if command == "status":
                    self.assertLessEqual(abs(int(titled) - reply["json"]["step"]), 1)
        self.stop(job)

    def test_mistakes_are_answered_and_cost_nothing(self):
        job = self.start_job()
        for command, words in (("stat *", "there is no command"), ("step x", "not a number of steps"),
                               ("pause now", "does not take"), ("ls nothing*", "no parameter"),
                               ("print model.norm.weight[9999]", "9999"),
                               ("verify", "on disk"), ("diff nothing", "no such file or folder")):
            answer = self.repl("run", command, status=1)[0]
            self.assertIn(words, answer["error"]["message"])
        self.assertEqual(self.repl("run", "step 2")[0]["ok"], True)
        self.stop(job)

    def test_a_job_is_compared_with_its_checkpoint(self):
        job = self.start_job()
        owner = self.attach(options=["--write"])
        self.say(owner, "pause")
        saved = re.search(r"\S*checkpoints/step-\d+", self.say(owner, "save")).group(0)
        difference, drift = self.repl("run", f"diff {saved}", f"drift {saved}")
        self.assertEqual({row["status"] for row in difference["parameters"]}, {"equal"})
        self.assertEqual({row["relative"] for row in drift["parameters"]}, {0.0})
        self.stop(job)

    def test_over_tcp_with_the_jobs_token(self):
        job = self.start_job(arguments=("--attach-at", "0"))
        control = self.path / "run" / "control"
        told = json.loads((control / "control.json").read_text())
        self.assertTrue(told["tcp"].startswith("127.0.0.1:"), "its own machine's unless told")
        token = self.path / "token"
        shutil.copy(control / "token", token)
        options = ("--token", token)
        status, stats = self.repl(f"tcp://{told['tcp']}", "status", "stats model.norm.weight", options=options)
        self.assertRegex(status["clients"][0], r"^am-repl [0-9.]+, from 127\.0\.0\.1:\d+$")
        self.assertEqual(stats["stats"][0]["nan"], 0)
        # Commands that change a job need permission here too, and every client needs the token.
        (refused,) = self.repl(f"tcp://{told['tcp']}", "save", options=options, status=1)
        self.assertIn("changes the job", refused["error"]["message"])
        token.write_text("0" * 64)
        for more, says in (((), "needs the job's token"), (options, "does not know the token")):
            done = subprocess.run([BIN / "am-repl", f"tcp://{told['tcp']}", *more, "-c", "status"],
                                  capture_output=True, text=True, timeout=60, cwd=self.path)
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(says, done.stderr)
        losses = self.stop(job)
        self.assertFalse(control.exists())
        self.train(self.path / "run.toml", "quiet", "--steps", len(losses), "--no-attach",
                   "--set", "metrics.every=100000")
        self.assertEqual(losses, [line["loss"] for line in self.metrics("quiet")])

    def test_a_job_of_another_machine_that_listens_there_is_attached_to(self):
        job = self.start_job(arguments=("--attach-at", "0.0.0.0:0"))
        control = self.path / "run" / "control" / "control.json"
        told = json.loads(control.read_text())
        self.assertNotIn("0.0.0.0", told["tcp"])
        port = told["tcp"].rsplit(":", 1)[1]
        told.update(host="node-7", pid=1, begun=1, boot_id="x", socket="/s", tcp=f"127.0.0.2:{port}")
        control.write_text(json.dumps(told))
        # A loopback address can be reached only on the job's machine, so am-repl on another machine
        # does not try this address.
        self.assertIn("its job runs on node-7", self.repl_errors("run", "status", status=2))
        told["tcp"] = f"{socket.gethostname()}:{port}"
        control.write_text(json.dumps(told))
        self.assertEqual(self.repl("run", "status")[0]["world_size"], 2)
        self.stop(job)

    def test_a_job_elsewhere_and_one_that_died(self):
        job = self.start_job()
        self.repl("run", "step 1")
        control = self.path / "run" / "control" / "control.json"
        for rank, process in self.processes_of("run").items():
            if rank == "launcher":
                os.kill(process, signal.SIGKILL)
        job.wait()
        self.wait_for(lambda: not [r for r in self.processes_of("run") if r != "guard"])
        told = json.loads(control.read_text()) if control.exists() else {}
        result = subprocess.run([BIN / "am-repl", "run", "-c", "ls"], cwd=self.path,
                                capture_output=True, text=True, timeout=60)
        self.assertIn("this run has saved no checkpoint", result.stderr)
        told.update(protocol=1, host="node-7", pid=1, begun=1, boot_id="x", socket="/s")
        control.write_text(json.dumps(told))
        (self.path / "run" / "lock").write_text("held by node-7")
        result = subprocess.run([BIN / "am-repl", "run", "-c", "ls"], cwd=self.path,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("its job runs on node-7", result.stderr)
        self.assertIn(f"ssh node-7 am-repl {self.path}/run", result.stderr)


if __name__ == "__main__":
    unittest.main()
