"""am-repl's answers to every command match its JSON Schema: on a checkpoint, on ranks and in a
job."""

import shutil
import subprocess
import unittest

from answer_schema import answer_schema, check_answers, problems
from attach_support import AttachCase
from run_support import BIN, DATA, plan_text

AT_REST = (
    "help", "help stats", "info", "mesh", "ls", "ls --optimizer", "ls --values", "tree", "show *norm.weight",
    "show model.norm.weight", "where *norm.weight", "where model.norm.weight", "stats", "stats *norm* | sort norm",
    "stats | select name max", "ls | count", "norms", "norms --by layer", "hist model.norm.weight", "hist *norm*",
    "print model.norm.weight[:3]", "print *norm.weight[:2]", "print checkpoint.step", "checksum", "nan", "dead",
    "heat model.norm.weight", "plot", "plot --by layer --of max --svg plot.svg", "top", "top 2 --by update",
    "top --by norm", "optim model.norm.weight", "memory", "calc norm(model.norm.weight) / 0", "let w = model.norm.weight",
    "let", "set", "set digits 5", "tokens '!\"#' --special", "loss '!\"#'", "logprob '!\"#'", "generate '!\"#' --tokens 3",
    "grad model.norm.weight --of '!\"#'", "unshard model.norm.weight", "unshard all", "reshard model.norm.weight",
    "reshard", "verify", "fits {plan}", "same {step}", "diff {step}", "drift {step}", "export out",
    "export one.safetensors --only *norm*", "print model.norm.weight --to one.npy",
    "mode table", "source commands.am", "report report.html", "output", "quit")
ON_RANKS = (
    "info", "mesh", "show model.norm.weight", "where model.norm.weight", "stats", "checksum model.norm.weight", "memory",
    "step", "collectives", "collectives 0", "grad model.norm.weight", "optim model.norm.weight",
    "unshard model.norm.weight", "reshard", "set", "acts", "attention")
IN_A_JOB = (
    "status", "ranks", "info", "pause", "step 2", "stack 0", "stragglers", "dashboard", "collectives",
    "stats model.norm.weight", "checksum",
    "unshard model.norm.weight", "break when loss < 0", "break", "break off", "tripwire nan", "tripwire", "tripwire off",
    "set optimizer.lr 0.001", "save", "continue", "watch loss --times 2", "watch rms *norm* --times 1", "detach")
WRONG = ("stats nothing", "ls | sort nothing", "shwo", "step x")


class SchemaTest(AttachCase):
    def answers(self, target, commands, *options):
        done = subprocess.run([BIN / "am-repl", target, "--json", *options, "-c", "; ".join(commands)],
                              capture_output=True, text=True, timeout=120, cwd=self.path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results = check_answers(done.stdout)["results"]
        self.assertEqual([each["input"] for each in results], list(commands))
        return {each["command"] for each in results}

    def test_every_command_is_as_it_says(self):
        plan = self.write_plan(plan_text(steps=2), "plan.toml")
        self.train(plan, "done")
        (self.path / "commands.am").write_text("ls | head 1\nnorms\n")
        step = self.path / "done" / "checkpoints" / "step-2"
        seen = self.answers(step, [each.format(plan=plan, step=step) for each in AT_REST])
        shutil.copytree(self.path / "done", self.path / "again")
        seen |= self.answers("done", ("metrics loss", "plot loss", "compare loss"), "again")
        seen |= self.answers(plan, ON_RANKS)
        seen |= self.answers(DATA / "hf" / "mixtral", ("experts --of AB", "acts --of AB"), "--tokenizer", "bytes")
        job = self.start_job()
        seen |= self.answers("run", IN_A_JOB, "--write")
        self.stop(job)
        commands = {name for name, each in answer_schema()["$defs"].items() if name[0].islower()}
        self.assertEqual(commands - seen, set())

    def test_errors_are_too(self):
        plan = self.write_plan(plan_text(steps=2), "plan.toml")
        for command in WRONG:
            done = subprocess.run([BIN / "am-repl", plan, "--json", "-c", command], capture_output=True, text=True,
                                  timeout=60, cwd=self.path)
            self.assertIn("error", check_answers(done.stdout)["results"][0])
        done = subprocess.run([BIN / "am-repl", "nowhere", "--json", "-c", "ls"], capture_output=True, text=True,
                              timeout=60, cwd=self.path)
        self.assertIn("error", check_answers(done.stdout))

    def test_the_schema_refuses_other_answers(self):
        schema = answer_schema()
        answer = {"command": "pause", "input": "pause", "ok": True, "step": 3, "paused": True}

        def told(**changes):
            return problems(schema, {"results": [{**answer, **changes}]}, schema)
        self.assertEqual(told(), [])
        self.assertTrue(told(step="3"))
        self.assertTrue(told(paused=1))
        self.assertTrue(told(more=1))
        self.assertTrue(told(command="nothing"))
        self.assertTrue(problems(schema, {"results": [{k: v for k, v in answer.items() if k != "step"}]}, schema))
        self.assertTrue(problems(schema, {"results": {}}, schema))


if __name__ == "__main__":
    unittest.main()
