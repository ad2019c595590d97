"""am-run trains from start to end with real processes, sockets and files."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

from run_support import BIN, DATA, RunTest, free_port, plan_text, read_safetensors


class Training(RunTest):
    def test_losses_are_those_of_pytorch(self):
        plan = self.write_plan(plan_text())
        result = self.train(plan, "run", "--json")
        wanted = json.loads((DATA / "loop" / "losses.json").read_text())["losses"]
        records = self.metrics("run")
        self.assertEqual([r["step"] for r in records], list(range(1, 21)))
        for record, loss in zip(records, wanted):
            self.assertAlmostEqual(record["loss"] / loss, 1.0, delta=1e-4)
        keys = ["step", "loss", "grad_norm", "lr", "tokens", "step_seconds", "tokens_per_second"]
        keys += ["tokens_per_second_per_rank", "peak_memory_bytes", "mfu", "time", "tokens_seen"]
        keys += ["data_seconds", "waiting_seconds", "validation_seconds", "saving_seconds"]
        self.assertEqual(list(records[0]), keys)
        self.assertEqual(records[0]["tokens"], 128)
        said = json.loads(result.stdout)
        self.assertEqual((said["ok"], said["steps"]), (True, 20))
        for name in ("plan.toml", "logs/rank-0.log", "logs/rank-1.log", "checkpoints/step-20"):
            self.assertTrue((self.path / "run" / name).exists(), name)

    def test_the_resolved_plan_trains_the_same(self):
        for strategy, steps in (("fsdp2", 2), ("ddp", 1), ("megatron_fsdp", 1)):
            with self.subTest(strategy):
                first, second = f"{strategy}-first", f"{strategy}-second"
                self.train(self.write_plan(plan_text(strategy=strategy, steps=steps)), first)
                checked = subprocess.run([BIN / "am-plan", "check", f"{first}/plan.toml"], capture_output=True, text=True,
                                         cwd=self.path, timeout=60)
                self.assertIn(f"{first}/plan.toml: ok", checked.stdout)  # no warning about a key that am-run wrote
                self.train(self.path / first / "plan.toml", second)
                losses = [[r["loss"] for r in self.metrics(run)] for run in (first, second)]
                self.assertEqual(losses[0], losses[1])

    def test_flags_override_the_plan(self):
        self.train(self.write_plan(plan_text()), "run", "--steps", "2", "--set", "optimizer.lr=0.5")
        records = self.metrics("run")
        self.assertEqual([r["lr"] for r in records], [0.5, 0.5])

    def test_export_at_the_end(self):
        more = '[checkpoint]\nexport = "hf"\n'
        self.train(self.write_plan(plan_text(more, steps=1)), "run")
        exported = self.path / "run" / "export" / "step-1"
        self.assertTrue((exported / "model.safetensors").exists())
        self.assertTrue((exported / "config.json").exists())

    def test_the_last_step_leaves_no_checkpoint_where_the_plan_says_so(self):
        more = "[checkpoint]\nevery = 2\nlast = false\n"
        self.train(self.write_plan(plan_text(more, steps=3)), "run")
        left = sorted(p.name for p in (self.path / "run" / "checkpoints").iterdir())
        self.assertEqual(left, ["step-2"])

    def test_a_stopped_job_saves_whatever_the_plan_says_of_the_last_step(self):
        plan = self.write_plan(plan_text("[checkpoint]\nlast = false\n", steps=1000000))
        job = self.start(plan, "--run-dir", "run")
        self.wait_for(lambda: (self.path / "run" / "metrics.jsonl").exists() and self.metrics("run"))
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(60), 0)
        steps = self.metrics("run")[-1]["step"]
        self.assertTrue((self.path / "run" / "checkpoints" / f"step-{steps}").exists())

    def test_a_deterministic_job_is_the_same_job_on_a_host(self):
        self.train(self.write_plan(plan_text(steps=3)), "plain")
        text = plan_text(steps=3).replace("[train]", '[train]\ndeterministic = true\nmatmul_precision = "high"')
        self.train(self.write_plan(text), "deterministic")
        self.assertEqual(*[[r["loss"] for r in self.metrics(run)] for run in ("plain", "deterministic")])

    def test_tensorboard_events_are_written(self):
        self.train(self.write_plan(plan_text("[metrics]\ntensorboard = true\n", steps=2)), "run")
        events = list((self.path / "run" / "tensorboard").glob("events.out.tfevents.*"))
        self.assertEqual(len(events), 1)
        self.assertEqual(events[0].read_bytes().count(b"loss_metrics/global_avg_loss"), 2)

    def test_old_checkpoints_are_dropped(self):
        more = "[checkpoint]\nevery = 1\nkeep = 2\n"
        self.train(self.write_plan(plan_text(more, steps=4)), "run")
        left = sorted(p.name for p in (self.path / "run" / "checkpoints").iterdir())
        self.assertEqual(left, ["step-3", "step-4"])

    def test_under_a_launcher_each_process_is_a_rank(self):
        plan = self.write_plan(plan_text(steps=2))
        common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        common["MASTER_PORT"] = str(free_port())
        ranks = [
            subprocess.Popen(
                [BIN / "am-run", plan, "--run-dir", self.path / "run"],
                env={**os.environ, **common, "RANK": str(r), "LOCAL_RANK": str(r)},
                stderr=subprocess.PIPE,
                text=True,
            )
            for r in range(2)
        ]
        for rank in ranks:
            _, errors = rank.communicate(timeout=60)
            self.assertEqual(rank.returncode, 0, errors)
        self.assertEqual(len(self.metrics("run")), 2)


class Resuming(RunTest):
    MORE = "[checkpoint]\nevery = 3\n"

    def test_kill_and_resume_is_exact(self):
        for strategy, mesh in (("fsdp2", "world_size = 2"), ("fsdp2", "world_size = 2\ntp_size = 2")):
            with self.subTest(mesh=mesh):
                name = mesh.replace("\n", "-").replace(" ", "")
                straight, broken = f"straight-{name}", f"broken-{name}"
                plan = self.write_plan(plan_text(self.MORE, mesh=mesh, strategy=strategy, steps=6))
                self.train(plan, straight)
                self.kill_after_step_3(plan, broken)
                self.train(plan, broken)
                pick = lambda run: [(r["step"], r["loss"], r["grad_norm"]) for r in self.metrics(run)]
                self.assertEqual(pick(straight), pick(broken))
                wanted, got = (self.checkpoint_bytes(run, 6) for run in (straight, broken))
                self.assertEqual(len(wanted), 2)
                self.assertEqual(wanted, got)

    def kill_after_step_3(self, plan, run):
        """Kills the launcher of a long run when the checkpoint of step 3 exists, and removes
        later checkpoints."""
        job = subprocess.Popen(
            [BIN / "am-run", plan, "--run-dir", self.path / run, "--steps", "100000"],
            stderr=subprocess.DEVNULL,
        )
        self.wait_for((self.path / run / "checkpoints" / "step-3").exists)
        job.kill()
        job.wait()
        self.wait_for(lambda: not self.processes_of(run))
        for folder in (self.path / run / "checkpoints").iterdir():
            if folder.name != "step-3":
                subprocess.run(["rm", "-r", folder], check=True)

    def test_another_layout_takes_over(self):
        plan = self.write_plan(plan_text(self.MORE, steps=3))
        self.train(plan, "run")
        other = self.write_plan(plan_text(self.MORE, mesh="world_size = 1", steps=6), "other.toml")
        self.train(other, "run")
        wanted = json.loads((DATA / "loop" / "losses.json").read_text())["losses"]
        for record, loss in zip(self.metrics("run"), wanted):
            self.assertAlmostEqual(record["loss"] / loss, 1.0, delta=1e-4)
        self.assertEqual(len(self.metrics("run")), 6)

    def test_frozen_parameters_stay_as_they_are(self):
        def tensors(file):
            return {name: values for name, (_, _, values) in read_safetensors(file).items()}

        def changed(step, run="run"):
            after = tensors(self.path / run / "export" / f"step-{step}" / "model.safetensors")
            self.assertEqual(set(after), set(before))
            return {name for name in after if after[name] != before[name]}

        before = tensors(DATA / "loop" / "model" / "model.safetensors")
        freeze = ("--set", 'model.freeze_params=["model.embed_tokens.*", "*.layers.0.*"]')
        frozen = {name for name in before if "embed_tokens" in name or ".layers.0." in name}
        self.assertTrue(frozen)
        more = '[checkpoint]\nexport = "hf"\n'
        said = self.train(self.write_plan(plan_text(more, steps=2)), "run", *freeze).stderr
        self.assertRegex(said, r"model       .* parameters, .* of them trained, ")
        self.assertEqual(changed(2), set(before) - frozen)
        # The checkpoint contains no AdamW states of the frozen parameters. A plan that trains them
        # therefore cannot resume from it, but can load its weights.
        thawed = self.write_plan(plan_text(more, steps=4))
        result = self.am_run(thawed, "--run-dir", "run")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("model.freeze_params: [", result.stderr)
        checkpoint = self.path / "run" / "checkpoints" / "step-2"
        result = self.am_run(thawed, "--run-dir", "run", "--resume", checkpoint)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"lacks optimizer states of model\S+ and \d+ more")
        self.assertIn(f'model.weights = "{checkpoint}"', result.stderr)
        self.train(thawed, "other", "--set", f"model.weights={checkpoint}", "--steps", "2")
        self.assertEqual(changed(2, "other"), set(before))

    def test_resume_none_starts_afresh(self):
        plan = self.write_plan(plan_text(self.MORE, steps=3))
        self.train(plan, "run")
        self.train(plan, "run", "--resume", "none")
        self.assertEqual([r["step"] for r in self.metrics("run")], [1, 2, 3])

    def test_sigterm_saves_and_ends_well(self):
        plan = self.write_plan(plan_text(steps=100000))
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                run = f"run-{number.name}"
                job = subprocess.Popen(
                    [BIN / "am-run", plan, "--run-dir", self.path / run], stderr=subprocess.PIPE, text=True
                )
                metrics = self.path / run / "metrics.jsonl"
                self.wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
                job.send_signal(number)
                _, errors = job.communicate(timeout=60)
                self.assertEqual(job.returncode, 0, errors)
                steps = self.metrics(run)[-1]["step"]
                self.assertTrue((self.path / run / "checkpoints" / f"step-{steps}").exists())


class BadInput(RunTest):
    def assert_fails(self, result, status, *texts):
        self.assertEqual(result.returncode, status, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)
        self.assertNotIn("terminate called", result.stderr)
        self.assertNotIn("frame #", result.stderr)

    def test_no_such_plan(self):
        self.assert_fails(self.am_run("nowhere.toml"), 2, "nowhere.toml")

    def test_wrong_command_line(self):
        self.assert_fails(self.am_run(), 2)
        self.assert_fails(self.am_run("plan.toml", "--nnodes", "2"), 2, "--rdzv")

    def test_a_plan_that_breaks_rules_starts_no_rank(self):
        plan = self.write_plan(plan_text(mesh="world_size = 3\ntp_size = 3"))
        result = self.am_run(plan, "--run-dir", self.path / "run", "--json")
        self.assert_fails(result, 1, "error[", "no rank was started")
        self.assertFalse((self.path / "run").exists())
        self.assertFalse(json.loads(result.stdout)["ok"])

    def test_what_this_version_cannot_run_is_said(self):
        plan = self.write_plan(plan_text(strategy="megatron_fsdp"))
        self.assert_fails(self.am_run(plan, "--set", "strategy.nccl_ub=true"), 1,
                          "runtime.unsupported", "strategy.nccl_ub")

    def test_models_that_can_only_be_planned_are_refused(self):
        config = json.loads((DATA / "loop" / "model" / "config.json").read_text())
        changes = [({"model_type": "falcon", "alibi": True}, "alibi"),
                   ({"model_type": "qwen4"}, "model_type \"qwen4\""),
                   ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "\"dynamic\""),
                   ({"hidden_act": "mish"}, "hidden_act \"mish\"")]
        for change, named in changes:
            with self.subTest(change):
                (self.path / "config.json").write_text(json.dumps({**config, **change}, indent=1))
                plan = self.write_plan(plan_text().replace(f'{DATA}/loop/model', str(self.path)))
                result = self.am_run(plan, "--run-dir", self.path / "run")
                self.assert_fails(result, 1, "runtime.unsupported", named, "config.json:")
                self.assertFalse((self.path / "run").exists())
        (self.path / "config.json").write_text(json.dumps({**config, "model_type": "qwen4"}))
        self.assert_fails(self.am_run(plan), 1, "llama, mistral, mixtral, qwen2")

    def test_nccl_without_a_gpu(self):
        text = plan_text().replace('name = "fsdp2"', 'name = "fsdp2"\nbackend = "nccl"')
        self.assert_fails(self.am_run(self.write_plan(text)), 1, "nccl", "gloo")

    def test_a_world_that_is_not_the_plans(self):
        result = self.am_run(self.write_plan(plan_text()), "--nproc", "4")
        self.assert_fails(result, 1, "world_size")

    def test_missing_data(self):
        plan = self.write_plan(plan_text(data="loop/nothing.bin"))
        self.assert_fails(self.am_run(plan), 1, "nothing.bin")

    def test_a_rank_that_fails_at_start_is_the_one_named(self):
        tokens = self.path / "tokens.bin"
        tokens.write_bytes(b"\xff\x7f" * 4000)  # ids far above the vocabulary
        text = plan_text().replace(str(DATA / "loop/tokens.bin"), str(tokens))
        result = self.am_run(self.write_plan(text), "--run-dir", self.path / "run")
        self.assert_fails(result, 2, "tokens.bin", "rank")

    def test_weights_beside_a_config_that_is_named_without_a_folder(self):
        model = self.path / "model"
        shutil.copytree(DATA / "hf" / "llama", model)
        text = re.sub(r'path = "[^"]*loop/model"', 'path = "config.json"', plan_text(steps=1))
        (model / "plan.toml").write_text(text)
        for plan in ("plan.toml", "./plan.toml", str(model / "plan.toml")):
            result = subprocess.run(
                [BIN / "am-run", plan, "--run-dir", self.path / "run", "--resume", "none"], cwd=model, text=True,
                capture_output=True, timeout=120)
            self.assertIn("loaded from", result.stderr, plan)

    def test_truncated_weights(self):
        model = self.path / "model"
        model.mkdir()
        for file in (DATA / "loop" / "model").iterdir():
            (model / file.name).write_bytes(file.read_bytes())
        weights = model / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
        text = plan_text().replace(str(DATA / "loop/model"), str(model))
        result = self.am_run(self.write_plan(text), "--run-dir", self.path / "run")
        self.assert_fails(result, 2, "model.safetensors")
        self.assertEqual(list((self.path / "run" / "checkpoints").iterdir()), [])

    def test_run_folder_that_is_a_file(self):
        (self.path / "run").write_text("in the way")
        result = self.am_run(self.write_plan(plan_text()), "--run-dir", self.path / "run")
        self.assert_fails(result, 2, "run")

    def test_a_full_disk_leaves_no_half_checkpoint(self):
        full = Path("/dev/full")
        if not full.exists() or os.geteuid() != 0:
            self.skipTest("needs root to mount a small file system")
        small = self.path / "small"
        small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", small])
        if mounted.returncode != 0:
            self.skipTest("cannot mount here")
        self.addCleanup(subprocess.run, ["umount", small])
        result = self.am_run(self.write_plan(plan_text(steps=2)), "--run-dir", small / "run")
        self.assert_fails(result, 2, "No space left")
        left = [p.name for p in (small / "run" / "checkpoints").iterdir()]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
