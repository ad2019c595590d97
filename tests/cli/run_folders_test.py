"""Problems with the run folder of a job: the folder disappears during the job, its disk is full, or
a pipe or another user's link is in the place of a file."""

import json
import os
import shutil
import signal
import socket
import subprocess
import unittest
from pathlib import Path

from run_support import BIN, RunTest, free_port, plan_text, require_mount_namespaces

LIMIT = 40  # seconds; a job that takes longer counts as hanging


class FolderTest(RunTest):
    def launch(self, plan, *options, run="run"):
        """Starts a job in the background. Its JSON report is written to RUN.json and its
        messages to RUN.err, next to the run folder."""
        with open(self.path / f"{run}.json", "wb") as out, open(self.path / f"{run}.err", "wb") as err:
            job = subprocess.Popen(
                [BIN / "am-run", plan, "--run-dir", self.path / run, "--timeout", "10", "--json", *map(str, options)],
                stdout=out, stderr=err, cwd=self.path)
        job.stderr = open(self.path / f"{run}.err")  # end() closes it
        self.addCleanup(self.end, job)
        return job

    def result_of(self, job, run="run"):
        """Waits until the job ends, at most LIMIT seconds. Returns its exit status, report and
        messages."""
        try:
            status = job.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.fail(f"the job goes on: {(self.path / f'{run}.err').read_text()[-2000:]}")
        return status, json.loads((self.path / f"{run}.json").read_text()), (self.path / f"{run}.err").read_text()

    def endless(self, more=""):
        return self.write_plan(plan_text(more, steps=1000000))

    def wait_for_steps(self, run="run", steps=3):
        metrics = self.path / run / "metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") >= steps)

    def stop_all(self):
        """Stops all processes of the job with SIGSTOP, at a moment at which no checkpoint is
        being saved."""
        def stopped():
            self.stopped = list(self.processes_of("run").values())
            for pid in self.stopped:
                os.kill(pid, signal.SIGSTOP)
            states = [(Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] for pid in self.stopped]
            if set(states) == {"T"} and not any((self.path / "run" / "checkpoints").glob("step-*.*")):
                return True
            self.continue_all()
            return False

        self.wait_for(stopped)

    def continue_all(self):
        for pid in self.stopped:
            os.kill(pid, signal.SIGCONT)


class LostFolder(FolderTest):
    """The run folder is removed, moved or replaced while the job runs."""

    SAVES = {
        "metrics alone": "",
        "saved": "[checkpoint]\nevery = 1\nkeep = 2\n",
        "saved meanwhile": "[checkpoint]\nevery = 1\nkeep = 2\nasync = true\n[metrics]\ntensorboard = true\n",
    }

    def assert_said(self, status, report, said, words, folder="run"):
        self.assertEqual(status, 2, said)
        self.assertFalse(report["ok"])
        message = report["cause"]["message"] or ""
        self.assertIn(f"{self.path / folder}: ", message)
        self.assertIn(words, message)
        self.assertNotIn("\n", message)
        self.assertIn(words, said)

    def lose(self, how, words, saves):
        """Moves the run folder of a running job away and calls how(old path). Checks that the
        job fails with `words` and has changed nothing at the old path. Returns the job's report."""
        run = self.path / "run"
        for path in (run, self.path / "moved", self.path / "other"):
            if path.is_symlink():
                path.unlink()
            shutil.rmtree(path, ignore_errors=True)
        job = self.launch(self.endless(saves))
        self.wait_for_steps()
        self.stop_all()
        os.rename(run, self.path / "moved")
        how(run)
        before = self.entries(run)
        self.continue_all()
        status, report, said = self.result_of(job)
        self.assert_said(status, report, said, words)
        self.assertEqual(self.entries(run), before, said)
        return report

    def entries(self, folder):
        return sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) if folder.exists() else None

    def each(self, how, words):
        for name, saves in self.SAVES.items():
            with self.subTest(name):
                report = self.lose(how, words, saves)
        return report

    def test_moved(self):
        report = self.each(lambda run: None, "was moved to ")
        self.assertIn(str(self.path / "moved"), report["cause"]["message"])
        # The moved folder contains the job's result and no unfinished checkpoint: the job still
        # writes to it.
        result = json.loads((self.path / "moved" / "result.json").read_text())
        self.assertFalse(result["ended"])
        self.assertEqual(result["steps"], report["steps"])
        self.assertGreaterEqual(result["steps"], 3)
        self.assertEqual([p.name for p in (self.path / "moved" / "checkpoints").glob("*.tmp")], [])

    def test_removed(self):
        self.each(lambda run: shutil.rmtree(self.path / "moved"), "was removed")

    def test_emptied(self):
        # Removes all files in the folder. One of them is the lock file, which keeps other jobs out of
        # the folder.
        job = self.launch(self.endless())
        self.wait_for_steps()
        for path in (self.path / "run").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        status, report, said = self.result_of(job)
        self.assert_said(status, report, said, "lock")
        self.assertEqual(self.entries(self.path / "run"), [])

    def test_replaced_by_another_folder(self):
        def replace(run):
            (run / "checkpoints" / "step-1").mkdir(parents=True)
            (run / "mine").write_text("of somebody else")

        self.each(replace, "now leads to another folder")
        self.assertEqual((self.path / "run" / "mine").read_text(), "of somebody else")

    def test_replaced_by_a_copy(self):
        self.each(lambda run: shutil.copytree(self.path / "moved", run, ignore=shutil.ignore_patterns("*.sock")),
                  "now leads to another folder")

    def test_replaced_by_a_link(self):
        def replace(run):
            (self.path / "other").mkdir()
            run.symlink_to(self.path / "other")

        self.each(replace, "now leads to another folder")
        self.assertEqual(list((self.path / "other").iterdir()), [])

    def test_moved_behind_a_link_it_is_the_folder_still(self):
        job = self.launch(self.endless("[checkpoint]\nevery = 1\nkeep = 2\n"))
        self.wait_for_steps()
        self.stop_all()  # a save between rename and symlink would fail and end the job
        os.rename(self.path / "run", self.path / "moved")
        (self.path / "run").symlink_to("moved")
        self.continue_all()
        steps = len(self.metrics("run"))
        self.wait_for_steps(steps=steps + 5)
        job.send_signal(signal.SIGTERM)
        status, report, said = self.result_of(job)
        self.assertEqual(status, 0, said)
        self.assertTrue(report["stopped"])

    def test_a_second_job_in_the_old_place_keeps_its_own(self):
        saves = "[checkpoint]\nevery = 2\n"
        first = self.launch(self.endless(saves + "async = true\n"))
        self.wait_for_steps()
        self.stop_all()
        os.rename(self.path / "run", self.path / "moved")
        second = self.launch(self.write_plan(plan_text(saves, steps=6), "second.toml"), run="run")
        # The second job's report overwrites the report of the first, so only the exit status of the
        # first is checked.
        self.assertEqual(second.wait(timeout=LIMIT), 0)
        before = self.entries(self.path / "run")
        self.continue_all()
        self.assertEqual(first.wait(timeout=LIMIT), 2)
        self.assertEqual(self.entries(self.path / "run"), before)
        self.assertEqual([record["step"] for record in self.metrics("run")], list(range(1, 7)))
        steps = sorted(p.name for p in (self.path / "run" / "checkpoints").iterdir())
        self.assertEqual(steps, ["step-2", "step-4", "step-6"])

    def test_a_running_job_in_the_old_place_can_still_be_attached_to(self):
        first = self.launch(self.endless())
        self.wait_for_steps()
        self.stop_all()
        os.rename(self.path / "run", self.path / "moved")
        second = self.launch(self.endless(), run="run")
        self.wait_for((self.path / "run" / "control" / "control.json").exists)
        self.continue_all()
        self.assertEqual(first.wait(timeout=LIMIT), 2)
        self.assertEqual(sorted(p.name for p in (self.path / "run" / "control").iterdir()),
                         ["control.json", "rank-0.sock"])
        self.assertFalse((self.path / "moved" / "control").exists())
        second.send_signal(signal.SIGTERM)
        self.assertEqual(second.wait(timeout=LIMIT), 0)

    def test_no_restart_begins_in_its_place(self):
        job = self.launch(self.endless(), "--max-restarts", 3)
        self.wait_for_steps()
        os.rename(self.path / "run", self.path / "moved")
        os.kill(self.processes_of("run")[1], signal.SIGKILL)
        status, report, said = self.result_of(job)
        self.assertNotEqual(status, 0)
        self.assertEqual(report["restarts"], 0, said)
        self.assertFalse((self.path / "run").exists(), said)

    def test_a_folder_for_checkpoints_elsewhere(self):
        saved = self.path / "saved"
        for async_ in ("false", "true"):
            with self.subTest(async_=async_):
                job = self.launch(self.endless(f'[checkpoint]\ndir = "{saved}"\nevery = 1\nkeep = 2\nasync = {async_}\n'))
                self.wait_for_steps()
                os.rename(saved, self.path / f"moved-{async_}")
                status, report, said = self.result_of(job)
                self.assert_said(status, report, said, "was moved to ", folder="saved")
                self.assertFalse(saved.exists())
                shutil.rmtree(self.path / "run")

    def test_under_another_launcher(self):
        env = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        plan = self.write_plan(plan_text("[checkpoint]\nevery = 1\n", mesh="world_size = 1", steps=1000000))
        job = self.start(plan, "--run-dir", self.path / "run", env=env)
        self.wait_for_steps()
        os.rename(self.path / "run", self.path / "moved")
        _, said = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 2, said)
        self.assertRegex(said, rf"rank 0: {self.path}/run: .*was moved to ")
        self.assertFalse((self.path / "run").exists())


class FullDisk(FolderTest):
    @classmethod
    def setUpClass(cls):
        require_mount_namespaces()

    def test_the_cause_is_never_empty(self):
        run = self.path / "run"
        run.mkdir()
        for kib in (700, 1000, 1300):
            for saves in ("every = 1", "every = 1\nasync = true"):
                with self.subTest(kib=kib, saves=saves):
                    plan = self.endless(f"[checkpoint]\n{saves}\n")
                    copies = f"cp '{run}/result.json' '{run}/metrics.jsonl' '{self.path}'"
                    script = f"mount -t tmpfs -o size={kib}k none '{run}'; \"$@\"; status=$?; {copies}; exit $status"
                    command = ["unshare", "-m", "sh", "-c", script, "sh", BIN / "am-run", plan,
                               "--run-dir", run, "--timeout", "10", "--json"]
                    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, cwd=self.path)
                    self.assertEqual(ended.returncode, 2, ended.stderr)
                    report = json.loads(ended.stdout)
                    self.assertIn("No space left on device", report["cause"]["message"] or "")
                    self.assertEqual(list(run.iterdir()), [])
                    lines = [json.loads(line) for line in (self.path / "metrics.jsonl").read_text().splitlines()]
                    self.assertGreater(lines[-1]["step"], 0)
                    self.assertEqual(report["steps"], lines[-1]["step"])
                    self.assertEqual(json.loads((self.path / "result.json").read_text())["steps"], report["steps"])


class NoRegularFile(FolderTest):
    """A pipe, a socket or a folder is in the place of a file. The error must name the path, and no
    process may wait for data."""

    def make(self, kind, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a folder":
            path.mkdir()
        else:
            place = socket.socket(socket.AF_UNIX)
            self.addCleanup(place.close)
            place.bind(str(path))

    def refused(self, *arguments):
        result = self.am_run(*arguments, "--timeout", 10, timeout=LIMIT)
        self.assertNotEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def test_in_the_run_folder(self):
        plan = self.write_plan(plan_text("[metrics]\ntensorboard = true\n", steps=1))
        for name in ("plan.toml", "result.json", "metrics.jsonl", "lock", "logs/rank-0.log", "logs/rank-1.log"):
            for kind in ("a pipe", "a socket", "a folder"):
                with self.subTest(name=name, kind=kind):
                    shutil.rmtree(self.path / "run", ignore_errors=True)
                    self.make(kind, self.path / "run" / name)
                    said = self.refused(plan, "--run-dir", self.path / "run")
                    self.assertIn(f"run/{name}: ", said)
                    self.assertRegex(said, f"it is {kind}|Is a directory")
        for name in ("logs", "checkpoints", "tensorboard", "control"):
            with self.subTest(name=name):
                shutil.rmtree(self.path / "run", ignore_errors=True)
                self.make("a pipe", self.path / "run" / name)
                said = self.am_run(plan, "--run-dir", self.path / "run", "--timeout", 10, timeout=LIMIT)
                self.assertIn(f"run/{name}", said.stderr)

    def test_an_error_file_of_an_earlier_job(self):
        plan = self.write_plan(plan_text(steps=1))
        self.make("a pipe", self.path / "run" / "logs" / "rank-0.error.json")
        self.train(plan, self.path / "run")

    def test_in_a_checkpoint(self):
        plan = self.write_plan(plan_text(steps=1))
        self.train(plan, "run")
        for name in ("checkpoint.json", "index.json", "__0_0.distcp"):
            with self.subTest(name):
                path = self.path / "run" / "checkpoints" / "step-1" / name
                path.rename(path.with_suffix(".kept"))
                self.make("a pipe", path)
                said = self.refused(plan, "--run-dir", "run", "--steps", 2, "--resume", path.parent)
                self.assertRegex(said, rf"{name}: [^\n]*it is a pipe")
                path.unlink()
                path.with_suffix(".kept").rename(path)

    def test_among_the_inputs(self):
        model = self.path / "model"
        text = plan_text(steps=1)
        source = Path(text.split('path = "')[1].split('"')[0])
        for name in ("config.json", "model.safetensors", "weights/model.safetensors", "pytorch_model.bin", "tokens.bin",
                     "words/a.jsonl", "tokenizer.json"):
            with self.subTest(name):
                shutil.rmtree(model, ignore_errors=True)
                model.mkdir()
                config = json.loads((source / "config.json").read_text())
                (model / "config.json").write_text(json.dumps({**config, "vocab_size": 256}))
                (model / name).unlink(missing_ok=True)
                self.make("a pipe", model / name)
                changed = text.replace(f'"{source}"', f'"{model}"')
                if name == "tokens.bin":
                    changed = changed.replace(text.split('path = "')[2].split('"')[0], str(model / name))
                if name in ("words/a.jsonl", "tokenizer.json"):
                    (model / "b.jsonl").write_text('{"text": "a"}\n')
                    data = model / ("words" if name.startswith("words") else "b.jsonl")
                    tokenizer = "bytes" if name.startswith("words") else model
                    changed = changed.replace('kind = "tokens"', f'kind = "text"\ntokenizer = "{tokenizer}"')
                    changed = changed.replace(text.split('path = "')[2].split('"')[0], str(data))
                if "model" in name:
                    weights = model / "weights" if name.startswith("weights") else model
                    changed = changed.replace("[model]\n", f'[model]\nweights = "{weights}"\n')
                plan = self.write_plan(changed)
                said = self.refused(plan, "--run-dir", self.path / "run")
                # The search of a folder skips files that are not regular. The message may therefore
                # also report that nothing was found.
                self.assertRegex(said, rf"{model}[^\n]*(it is a pipe|no weights|not a regular file|neither a file|no nonempty file)", changed)

    def test_a_plan_from_standard_input_is_a_plan(self):
        text = plan_text(steps=1)
        with open(self.write_plan(text)) as plan:
            checked = subprocess.run([BIN / "am-plan", "check", "/dev/stdin"], stdin=plan, capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


@unittest.skipIf(os.geteuid() != 0, "links of other users are made by root alone")
class Links(FolderTest):
    """Symbolic links in a run folder are followed if they belong to the job's user or to root,
    and refused if they belong to another user."""

    FILES = ("plan.toml", "result.json", "metrics.jsonl", "lock", ".write-test", "logs/rank-0.log", "logs/rank-1.log")
    FOLDERS = ("logs", "checkpoints", "tensorboard", "export")
    MORE = '[metrics]\ntensorboard = true\n[checkpoint]\nexport = "hf"\n'

    def setUp(self):
        super().setUp()
        self.path.chmod(0o755)
        self.plan = self.write_plan(plan_text(self.MORE, steps=2))

    def link(self, name, folder, owner):
        """Replaces the run folder by one that contains only the link RUN/name, owned by `owner`,
        and returns the link's target: an empty folder if `folder`, otherwise an empty file."""
        for left in ("run", "there"):
            shutil.rmtree(self.path / left, ignore_errors=True)
        there = self.path / "there"
        there.mkdir()
        if not folder:
            there = there / "precious"
            there.write_text("")
        link = self.path / "run" / name
        link.parent.mkdir(parents=True)
        link.symlink_to(there)
        os.lchown(link, owner, owner)
        return there

    def test_of_another_user(self):
        for name in self.FILES + self.FOLDERS:
            with self.subTest(name):
                there = self.link(name, name in self.FOLDERS, 12345)
                result = self.am_run(self.plan, "--run-dir", self.path / "run", "--timeout", 10, "--json", timeout=LIMIT)
                self.assertNotEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"run/{name}: this symbolic link belongs to user 12345", result.stderr)
                if there.is_dir():
                    self.assertEqual(list(there.iterdir()), [])
                else:
                    self.assertEqual(there.read_text(), "")

    def test_of_another_user_beyond_one_of_our_own(self):
        there = self.link("plan.toml", False, 12345)
        (self.path / "run" / "plan.toml").rename(self.path / "theirs")
        (self.path / "run" / "plan.toml").symlink_to("../theirs")
        result = self.am_run(self.plan, "--run-dir", self.path / "run", "--timeout", 10, timeout=LIMIT)
        self.assertIn("theirs: this symbolic link belongs to user 12345", result.stderr)
        self.assertEqual(there.read_text(), "")

    def test_planted_while_the_job_runs(self):
        job = self.launch(self.endless("[checkpoint]\nevery = 1\n"))
        self.wait_for_steps()
        (self.path / "there").mkdir()
        checkpoints = self.path / "run" / "checkpoints"
        self.stop_all()
        checkpoints.rename(self.path / "run" / "kept")
        checkpoints.symlink_to(self.path / "there")
        os.lchown(checkpoints, 12345, 12345)
        self.continue_all()
        status, report, said = self.result_of(job)
        self.assertEqual(status, 2, said)
        self.assertIn("checkpoints: this symbolic link belongs to user 12345", report["cause"]["message"])
        self.assertEqual(list((self.path / "there").iterdir()), [])

    def test_of_our_own(self):
        for name in self.FILES + self.FOLDERS:
            with self.subTest(name):
                there = self.link(name, name in self.FOLDERS, os.geteuid())
                self.train(self.plan, self.path / "run")
                if name in self.FOLDERS:
                    self.assertNotEqual(list(there.iterdir()), [])
                    self.assertTrue((self.path / "run" / name).is_symlink())

    def test_of_our_own_as_another_user(self):
        # User 12345 runs am-run. Links of this user and of root are followed.
        for owner in (12345, 0):
            with self.subTest(owner=owner):
                there = self.link("checkpoints", True, owner)
                for path in (self.path / "run", there, self.path):
                    os.chown(path, 12345, 12345)
                result = subprocess.run(
                    [BIN / "am-run", self.plan, "--run-dir", self.path / "run"], capture_output=True, text=True,
                    cwd=self.path, timeout=LIMIT, user=12345, group=12345, extra_groups=[])
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("step-2", [p.name for p in there.iterdir()])


if __name__ == "__main__":
    unittest.main()
