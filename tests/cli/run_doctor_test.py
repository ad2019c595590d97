"""am-run doctor checks this machine. Its single checks are tested in
tests/launch/doctor/doctor_test.cpp."""
# ctest: waits

import json
import socket
import unittest

from run_support import DATA, RunTest, plan_text


class Doctor(RunTest):
    def doctor(self, *arguments, env=None, text=None):
        plan = self.write_plan(text or plan_text().replace('name = "fsdp2"', 'name = "fsdp2"\nbackend = "gloo"'))
        return self.am_run("doctor", plan, *arguments, env=env)

    def checks(self, *arguments, **more):
        result = self.doctor("--json", *arguments, **more)
        said = json.loads(result.stdout)
        self.assertEqual(said["ok"], result.returncode == 0, result.stdout)
        for check in said["checks"]:
            self.assertEqual(list(check), ["name", "status", "message", "help"])
        return {check["name"]: check for check in said["checks"]}

    def test_a_small_plan_can_run_here(self):
        result = self.doctor()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("this machine can run the plan: 0 errors", result.stdout)
        checks = self.checks()
        self.assertEqual(checks["GPUs"]["status"], "skipped")
        for name in ("world size", "rendezvous port", "memory", "disk", "open files", "libtorch"):
            self.assertEqual(checks[name]["status"], "ok", checks[name])

    def test_the_table_follows_the_locale_and_the_colour(self):
        self.assertIn("✓  world size", self.doctor(env={"LC_ALL": "C.UTF-8"}).stdout)
        plain = self.doctor(env={"LC_ALL": "C"}).stdout
        self.assertTrue(plain.isascii())
        self.assertIn("ok  world size", plain)
        self.assertNotIn("\x1b", plain)
        self.assertIn("\x1b[", self.doctor("--color", "always").stdout)

    def test_what_the_job_reads_is_opened(self):
        checks = self.checks()
        for name in ("checkpoint", "data", "weights"):
            self.assertEqual(checks[name]["status"], "ok", checks[name])
        self.assertIn("4 992 tokens", checks["data"]["message"])
        for setting, name, words in (
            ("train.seq_len=30000", "data", "tokens"),
            ("data.path=nowhere.bin", "plan", "nowhere.bin"),
            (f"model.weights={DATA}/hf/qwen3", "weights", "does not fit the model"),
            (f"checkpoint.resume={DATA}/loop/model", "checkpoint", "without optimizer states"),
        ):
            with self.subTest(setting=setting):
                key, value = setting.split("=", 1)
                value = value if value.isdigit() else json.dumps(value)
                checks = self.checks("--set", f"{key}={value}")
                self.assertEqual(checks[name]["status"], "error", checks[name])
                self.assertIn(words, checks[name]["message"])

    def test_the_checkpoint_that_the_job_would_go_on_from(self):
        plan = self.write_plan(plan_text(steps=2))
        self.train(plan, "runs/plan")
        checks = self.checks("--set", "train.max_steps=4")
        self.assertIn("step-2, step 2", checks["checkpoint"]["message"])
        self.assertEqual(checks["the same run"]["status"], "ok", checks)
        other = self.checks("--set", "train.seed=7")["the same run"]
        self.assertEqual(other["status"], "error")
        self.assertIn("train.seed: 0 there, 7 here", other["message"])

    def test_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            checks = self.checks("--rdzv", f"127.0.0.1:{taken.getsockname()[1]}")
        self.assertEqual(checks["rendezvous port"]["status"], "error")

    def test_another_world(self):
        result = self.doctor("--nproc", "3")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the plan has 2 ranks, but the launcher starts 3", result.stdout)

    def test_half_a_launcher(self):
        self.assertEqual(self.checks(env={"RANK": "1"})["launcher's variables"]["status"], "error")

    def test_a_plan_that_is_not_valid(self):
        text = plan_text(mesh="world_size = 3\ntp_size = 2")
        result = self.doctor(text=text)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("error[mesh.", result.stderr)
        self.assertEqual(self.checks(text=text)["plan"]["status"], "error")

    def test_a_plan_that_cannot_be_read(self):
        self.assertEqual(self.am_run("doctor", "nowhere.toml").returncode, 2)
        self.assertEqual(self.am_run("doctor").returncode, 2)


if __name__ == "__main__":
    unittest.main()
