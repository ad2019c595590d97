"""Loggers that send metrics to services (W&B, MLflow, Comet), tested with fake packages that
record their calls; and the metrics file for Prometheus."""
# ctest: waits

import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from run_support import RunTest, free_port, plan_text, why_not

# Source of the fake packages: every attribute can be called. Each call appends a line with the
# package, the function and the arguments to the file $FAKE_CALLS. $FAKE_FAULTS names calls that
# hang, die, raise or print 128 KiB ("fill"), for example {"wandb.log": "hang"}.
FAKE = '''
import json, os, sys, time

ANSWERS = {"run_id": "run-1", "experiment_id": "1", "params": {}}


class Fake:
    def __init__(self, name=""):
        self._name = name

    def __getattr__(self, part):
        if part.startswith("__"):
            raise AttributeError(part)
        return ANSWERS[part] if part in ANSWERS else Fake(part)

    def __call__(self, *args, **kwargs):
        with open(os.environ["FAKE_CALLS"], "a") as file:
            file.write(json.dumps([__name__, self._name, args, kwargs], default=lambda each: each._name) + "\\n")
        fault = json.loads(os.environ.get("FAKE_FAULTS", "{}")).get(__name__ + "." + self._name)
        if fault == "hang":
            time.sleep(3600)
        if fault == "die":
            os._exit(7)
        if fault == "fill":
            print("x" * (1 << 17), flush=True)
        if fault == "raise":
            raise RuntimeError("the service is angry")
        return Fake(self._name)


sys.modules[__name__] = Fake()
'''
ALL = ["wandb", "mlflow", "comet"]
LONG = 1200  # steps of a job that is killed or stopped after about 250 steps
PATIENCE = 10  # seconds for which a job that has trained its last step waits for its loggers


def loggers(names, more=""):
    return f"[metrics]\nloggers = {json.dumps(names)}\n{more}"


class Loggers(RunTest):
    def setUp(self):
        super().setUp()
        self.fakes = self.path / "fakes"
        self.fakes.mkdir()
        for name in ("wandb", "mlflow", "comet_ml"):
            (self.fakes / f"{name}.py").write_text(FAKE)
        self.env = {"PYTHONPATH": str(self.fakes), "FAKE_CALLS": str(self.path / "calls"), "AM_PYTHON": sys.executable}
        self.addCleanup(self.end_loggers)

    def logger_processes(self):
        """Returns the process ids of this test's loggers that are running."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                line = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if b"_logger.py" in line and str(self.path).encode() in line:
                found.append(int(process.name))
        return found

    def end_loggers(self):
        for pid in self.logger_processes():
            os.kill(pid, signal.SIGKILL)

    def calls(self, package, name=None):
        """Returns [function, positional arguments, keyword arguments] of each call of the
        package so far, or only of the function `name`."""
        try:
            lines = (self.path / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        calls = [json.loads(line) for line in lines]
        return [call[1:] for call in calls if call[0] == package and name in (None, call[1])]

    def sent(self):
        """Returns the step of each call of W&B's log(), in order."""
        return [call[1][0]["step"] for call in self.calls("wandb", "log")]

    def train(self, plan, *arguments, env=None, status=0):
        start = time.monotonic()
        result = self.am_run(plan, "--run-dir", "run", *arguments, env={**self.env, **(env or {})})
        self.assertEqual(result.returncode, status, result.stderr)
        self.seconds = time.monotonic() - start
        return result.stderr

    def notes(self, stderr):
        return [line for line in stderr.splitlines() if line.startswith("note ")]

    def losses_without_loggers(self, steps=20):
        self.am_run(self.write_plan(plan_text(steps=steps), "alone.toml"), "--run-dir", "alone")
        return [line["loss"] for line in self.metrics("alone")]

    def losses(self):
        return [line["loss"] for line in self.metrics("run")]

    def test_services_receive_the_plan_and_every_step(self):
        stderr = self.train(self.write_plan(plan_text(loggers(ALL))))
        self.assertEqual(self.notes(stderr), [])
        self.assertEqual(self.losses(), self.losses_without_loggers())
        self.assertEqual(self.logger_processes(), [])
        lines = self.metrics("run")

        init = self.calls("wandb", "init")[0][2]
        self.assertEqual((init["project"], init["name"], init["resume"]), ("automesh", "run", "allow"))
        self.assertEqual(init["dir"], str(self.path / "run"))
        config = self.calls("wandb", "update")[0][1][0]
        self.assertEqual((config["optimizer.lr"], config["data.kind"]), (0.01, "tokens"))
        rows = [call[1][0] for call in self.calls("wandb", "log")]
        self.assertEqual([row["loss"] for row in rows], self.losses())
        self.assertEqual(rows[0].keys(), {key for key, value in lines[0].items() if value is not None})
        self.assertEqual(self.calls("wandb")[-1], ["finish", [], {"exit_code": 0}])

        metrics = [call for call in self.calls("mlflow", "Metric") if call[1][0] == "loss"]
        self.assertEqual([(call[1][1], call[1][3]) for call in metrics], [(row["loss"], row["step"]) for row in rows])
        self.assertIn(["Param", ["optimizer.lr", "0.01"], {}], self.calls("mlflow"))
        self.assertEqual(self.calls("mlflow")[-1], ["set_terminated", ["run-1", "FINISHED"], {}])

        start = self.calls("comet_ml", "start")[0][2]
        self.assertEqual((start["mode"], start["project_name"]), ("get_or_create", "automesh"))
        steps = [(call[1][0]["loss"], call[2]["step"]) for call in self.calls("comet_ml", "log_metrics")]
        self.assertEqual(steps, [(row["loss"], row["step"]) for row in rows])
        self.assertIn(["log_other", ["state", "finished"], {}], self.calls("comet_ml"))
        self.assertEqual(self.calls("comet_ml")[-1][0], "end")

    def test_projects_come_from_the_environment(self):
        self.train(self.write_plan(plan_text(loggers(ALL), steps=2)), env={
            "WANDB_PROJECT": "mine", "MLFLOW_EXPERIMENT_NAME": "theirs", "COMET_PROJECT_NAME": "ours"})
        self.assertEqual(self.calls("wandb", "init")[0][2]["project"], "mine")
        self.assertEqual(self.calls("mlflow", "get_experiment_by_name")[0][1], ["theirs"])
        self.assertEqual(self.calls("comet_ml", "start")[0][2]["project_name"], "ours")

    def test_a_resumed_job_continues_the_run_and_a_new_one_has_its_own(self):
        more = "[checkpoint]\nevery = 5\n"
        self.train(self.write_plan(plan_text(loggers(ALL, more), steps=10)))
        self.train(self.write_plan(plan_text(loggers(ALL, more), steps=20)))
        self.assertEqual(self.sent(), list(range(1, 21)))
        first, second = (call[2]["id"] for call in self.calls("wandb", "init"))
        self.assertEqual(first, second)
        keys = [call[2]["experiment_key"] for call in self.calls("comet_ml", "start")]
        self.assertEqual(keys[0], keys[1])
        self.assertEqual(len(self.calls("mlflow", "create_run")), 1)
        self.assertEqual(self.calls("mlflow", "update_run"), [["update_run", ["run-1"], {"status": "RUNNING"}]])
        self.train(self.write_plan(plan_text(loggers(ALL, more), steps=3)), "--resume", "none")
        self.assertEqual(self.sent()[20:], [1, 2, 3])
        self.assertNotEqual(self.calls("wandb", "init")[-1][2]["id"], first)
        self.assertEqual(len(self.calls("mlflow", "create_run")), 2)

    def test_steps_under_a_changed_plan_are_sent_again(self):
        more = "[checkpoint]\nevery = 5\n"
        self.train(self.write_plan(plan_text(loggers(["wandb"], more), steps=10)))
        self.train(self.write_plan(plan_text(loggers(["wandb"], more), steps=10)), "--resume",
                   "run/checkpoints/step-5", "--set", "optimizer.lr=0.005")
        self.assertEqual(self.sent(), [*range(1, 11), *range(6, 11)])
        rows = [call[1][0] for call in self.calls("wandb", "log")]
        self.assertEqual({row["lr"] for row in rows[10:]}, {0.005})

    def test_failing_loggers_change_neither_losses_nor_status_nor_time(self):
        plan = self.write_plan(plan_text(loggers(ALL)))
        expected = self.losses_without_loggers()
        cases = [
            {"wandb.init": "hang", "mlflow.create_run": "die", "comet_ml.start": "raise"},
            {"wandb.log": "die", "mlflow.log_batch": "raise", "comet_ml.log_metrics": "hang"},
            {"wandb.finish": "raise", "mlflow.set_terminated": "hang", "comet_ml.end": "die"},
        ]
        for faults in cases:
            with self.subTest(faults=faults):
                stderr = self.train(plan, "--resume", "none", env={"FAKE_FAULTS": json.dumps(faults)})
                self.assertEqual(self.losses(), expected)
                self.assertLess(self.seconds, PATIENCE + 20)
                self.assertEqual(self.logger_processes(), [])
                notes = [line for line in self.notes(stderr) if " the logger of " in line]
                self.assertEqual(len(notes), 3, notes)
                notes = "\n".join(notes)
                for call, fault in faults.items():
                    name = call.split(".")[0].removesuffix("_ml")
                    ending = {"hang": " did not end within 10 s and was killed", "die": r" has ended \(exit status 7\);",
                              "raise": r" has ended \(exit status 1\): RuntimeError: the service is angry"}[fault]
                    self.assertRegex(notes, f"logger of {name}{ending}.*its log: .*logs/logger-{name}.log")

    def mount_small(self, folder):
        """Mounts a file system of 64 KiB at a folder of the run."""
        folder.mkdir(parents=True)
        reason = why_not("mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder))
        if reason:
            self.skipTest(f"cannot mount here: {reason}")
        self.addCleanup(subprocess.run, ["umount", folder], check=True)

    def test_a_logger_that_fills_the_disk_holds_up_no_step(self):
        expected = self.losses_without_loggers()
        self.mount_small(self.path / "run" / "logs")
        stderr = self.train(self.write_plan(plan_text(loggers(["wandb"]))), env={"FAKE_FAULTS": '{"wandb.log": "fill"}'})
        self.assertEqual(os.statvfs(self.path / "run" / "logs").f_bavail, 0)
        self.assertEqual(self.losses(), expected)
        (note,) = self.notes(stderr)
        self.assertIn("the logger of wandb has ended (exit status 1)", note)
        self.assertEqual(self.logger_processes(), [])

    def test_a_full_disk_of_tensorboard_holds_up_no_step(self):
        expected = self.losses_without_loggers()
        folder = self.path / "run" / "tensorboard"
        self.mount_small(folder)
        (folder / "other").write_bytes(bytes(os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize))
        stderr = self.train(self.write_plan(plan_text("[metrics]\ntensorboard = true\n")))
        self.assertEqual(self.losses(), expected)
        self.assertIn("tensorboard", "\n".join(self.notes(stderr)))

    def test_a_service_that_is_away_for_a_while_loses_nothing(self):
        flaky = FAKE.replace('raise RuntimeError("the service is angry")', '''
            os.environ["FAKE_FAULTS"] = "{}"
            raise RuntimeError("the service is angry")''')
        (self.fakes / "comet_ml.py").write_text(flaky)
        stderr = self.train(self.write_plan(plan_text(loggers(["comet"]))),
                            env={"FAKE_FAULTS": '{"comet_ml.log_metrics": "raise"}'})
        self.assertEqual(self.notes(stderr), [])
        steps = [call[2]["step"] for call in self.calls("comet_ml", "log_metrics")]
        self.assertEqual(steps, [1, *range(1, 21)])

    def test_missing_packages_and_interpreters_are_notes(self):
        (self.fakes / "wandb.py").write_text("raise ModuleNotFoundError(\"No module named 'wandb'\")")
        stderr = self.train(self.write_plan(plan_text(loggers(["wandb"]), steps=3)))
        self.assertRegex("\n".join(self.notes(stderr)), r"wandb has ended .*: ModuleNotFoundError: No module named 'wandb'")
        stderr = self.train(self.write_plan(plan_text(loggers(["wandb"]), steps=6)), env={"AM_PYTHON": "/no/python"})
        self.assertRegex("\n".join(self.notes(stderr)), "nothing is sent to wandb: cannot start /no/python")
        self.assertEqual(len(self.metrics("run")), 6)

    def test_doctor_checks_the_packages(self):
        plan = self.write_plan(plan_text(loggers(ALL)))

        def check(**env):
            result = self.am_run("doctor", plan, "--json", env={**self.env, **env})
            return next(each for each in json.loads(result.stdout)["checks"] if each["name"] == "loggers")

        self.assertEqual((check()["status"], check()["message"]), ("ok", "wandb; mlflow; comet"))
        (self.fakes / "mlflow.py").unlink()
        self.assertEqual(check()["status"], "warning")
        self.assertRegex(check()["message"], "^.*python.* is older than 3.11, or has no package for mlflow$")
        missing = check(AM_PYTHON="/no/python")
        self.assertEqual(missing["status"], "warning")
        self.assertIn("cannot start /no/python", missing["message"])

    def start_long_job(self, *arguments, names=("wandb", "mlflow"), env=None):
        more = "[checkpoint]\nevery = 100\nkeep = 3\n"
        plan = self.write_plan(plan_text(loggers(list(names), more), steps=LONG))
        job = self.start(plan, "--run-dir", self.path / "run", *arguments, env={**self.env, **(env or {})})
        self.wait_for(lambda: len(self.sent()) > 250 or job.poll() is not None)
        return job

    def await_end_of_loggers(self, seconds):
        self.wait_for(lambda: not self.logger_processes(), seconds)

    def test_a_killed_job_is_marked_as_failed_and_the_next_one_continues(self):
        job = self.start_long_job()
        os.kill(self.processes_of("run")[0], signal.SIGKILL)
        job.wait(timeout=60)
        self.await_end_of_loggers(20)
        self.assertEqual(self.calls("wandb")[-1], ["finish", [], {"exit_code": 1}])
        self.assertEqual(self.calls("mlflow", "set_terminated")[-1][1], ["run-1", "FAILED"])
        self.train(self.path / "plan.toml")
        # The steps between the checkpoint and the failure are trained twice, but each is sent once.
        self.assertEqual(self.sent(), list(range(1, LONG + 1)))
        self.assertEqual(self.calls("wandb")[-1], ["finish", [], {"exit_code": 0}])
        self.assertEqual(len({call[2]["id"] for call in self.calls("wandb", "init")}), 1)

    def test_a_restarted_job_waits_for_the_logger_of_the_failed_attempt(self):
        slow = FAKE.replace('fault = ', '''
        if self._name == "finish" and kwargs["exit_code"] == 1:
            time.sleep(3)
            open(os.environ["FAKE_CALLS"], "a").write(json.dumps([__name__, "finished", [], {}]) + "\\n")
        fault = ''', 1)
        (self.fakes / "wandb.py").write_text(slow)
        job = self.start_long_job("--max-restarts", "1", names=["wandb"])
        os.kill(self.processes_of("run")[0], signal.SIGKILL)
        self.assertEqual(job.wait(timeout=120), 0, job.stderr.read())
        names = [call[0] for call in self.calls("wandb") if call[0] in ("init", "finish", "finished")]
        self.assertEqual(names, ["init", "finish", "finished", "init", "finish"])
        self.assertEqual(self.sent(), list(range(1, LONG + 1)))

    def test_a_hanging_logger_of_a_killed_job_ends_by_itself(self):
        job = self.start_long_job(names=["wandb", "comet"], env={"FAKE_FAULTS": '{"comet_ml.start": "hang"}'})
        rank = self.processes_of("run")[0]
        os.kill(rank, signal.SIGKILL)
        job.wait(timeout=60)
        # The job has ended without its loggers. The logger of W&B ends first, and the hanging logger
        # of Comet later.
        self.wait_for(lambda: len(self.logger_processes()) == 1, 20)
        self.await_end_of_loggers(45)

    def test_a_stopped_job_has_finished(self):
        job = self.start_long_job(names=["wandb"])
        for pid in self.logger_processes():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                os.kill(pid, number)  # some batch systems send signals to all processes of a job
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(timeout=60), 0)
        self.assertEqual(self.calls("wandb")[-1], ["finish", [], {"exit_code": 0}])
        self.assertEqual(self.sent(), [line["step"] for line in self.metrics("run")])

    def test_a_rank_of_another_launcher_starts_the_loggers(self):
        plan = self.write_plan(plan_text(loggers(["wandb"]), mesh="world_size = 1", steps=3))
        self.train(plan, env={"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())})
        self.assertEqual(self.sent(), [1, 2, 3])

    def test_prometheus_reads_the_last_step(self):
        self.train(self.write_plan(plan_text("[metrics]\nprometheus = true\n", steps=3)))
        lines = (self.path / "run/metrics.prom").read_text().splitlines()
        self.assertIn('automesh_step{run="run"} 3.0', lines)
        loss = [line.split()[1] for line in lines if line.startswith("automesh_loss{")]
        self.assertEqual([float(text) for text in loss], [self.losses()[-1]])


if __name__ == "__main__":
    unittest.main()
