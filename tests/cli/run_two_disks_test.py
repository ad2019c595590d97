"""am-run on two machines that share too few folders. A mount namespace simulates a machine with
other files at a folder's path."""
# ctest: waits

import os
import shutil
import subprocess
import unittest
from pathlib import Path

from run_support import BIN, RunTest, free_port, plan_text, require_mount_namespaces


class TwoDisksTest(RunTest):
    @classmethod
    def setUpClass(cls):
        require_mount_namespaces()

    def start_rank(self, rank, port, arguments, own=()):
        """Starts a rank with torchrun's variables. `own` lists pairs (folder, replacement): this
        rank sees the replacement's files at the folder's path."""
        mounts = "".join(f"mount --bind '{there}' '{folder}' && " for folder, there in own)
        command = ["unshare", "-m", "sh", "-c", mounts + 'exec "$@"', "sh", str(BIN / "am-run"),
                   *map(str, arguments), "--timeout", "30"]
        env = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        job = subprocess.Popen(command, cwd=self.path, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, env={**os.environ, **env})
        self.addCleanup(self.end, job)
        return job

    def run_ranks(self, arguments, own_of_rank_1):
        """Runs two ranks. `own_of_rank_1` lists the replaced folders of rank 1, as in start_rank().
        Returns the exit statuses and the messages of both ranks."""
        port = free_port()
        jobs = [self.start_rank(0, port, arguments), self.start_rank(1, port, arguments, own_of_rank_1)]
        ended = [(job.communicate(timeout=120)[1], job.returncode) for job in jobs]
        return [status for _, status in ended], [said for said, _ in ended]

    def new_folder(self, name):
        made = self.path / name
        made.mkdir(parents=True)
        return made

    def assert_refused(self, arguments, own, *words):
        statuses, said = self.run_ranks(arguments, own)
        self.assertNotIn(0, statuses, said)
        for errors in said:
            for word in words:
                self.assertIn(word, errors)
            self.assertNotIn("is in another collective", errors)

    def test_a_checkpoint_that_one_machine_alone_has(self):
        plan = self.write_plan(plan_text(steps=2))
        self.train(plan, "run")
        # Both ranks share the run folder, but rank 1 sees another checkpoints folder inside it.
        other = self.new_folder("other")
        statuses, said = self.run_ranks([plan, "--run-dir", "run", "--steps", "4"],
                                        [(self.path / "run/checkpoints", other)])
        self.assertNotIn(0, statuses)
        for errors in said:
            self.assertIn("rank 1 does not see the checkpoint from which rank 0 resumes", errors)
        self.assertEqual(len(self.metrics("run")), 2)

    def test_another_save_of_the_same_step(self):
        plan = self.write_plan(plan_text(steps=2))
        for run in ("run", "other"):
            self.train(plan, run)
        self.assert_refused([plan, "--run-dir", "run", "--steps", "4"],
                            [(self.path / "run/checkpoints", self.path / "other/checkpoints")],
                            "rank 1 does not see the checkpoint", "belongs to another checkpoint")

    def test_a_checkpoint_folder_that_is_not_shared(self):
        saved, other = self.new_folder("saved"), self.new_folder("other")
        plan = self.write_plan(plan_text(f'[checkpoint]\ndir = "{saved}"\n', steps=2))
        self.assert_refused([plan, "--run-dir", "run"], [(saved, other)],
                            "the checkpoint folder is not shared", "is not visible to rank 1", "checkpoint.dir")
        self.assertEqual(list(saved.iterdir()), [])

    def test_data_that_is_not_the_same(self):
        data, other = self.new_folder("data"), self.new_folder("other")
        text = plan_text(steps=2, mesh="world_size = 2\ntp_size = 2")
        tokens = Path(text.split('path = "')[2].split('"')[0])
        content = tokens.read_bytes()
        (data / "tokens.bin").write_bytes(content)
        (other / "tokens.bin").write_bytes(content[:-2] + b"\0\0")
        plan = self.write_plan(text.replace(str(tokens), str(data / "tokens.bin")))
        self.assert_refused([plan, "--run-dir", "run"], [(data, other)],
                            "rank 1 has other data or another model than rank 0", "data.fingerprint: ")
        shutil.copy(data / "tokens.bin", other / "tokens.bin")
        statuses, said = self.run_ranks([plan, "--run-dir", "run"], [(data, other)])
        self.assertEqual(statuses, [0, 0], said)


if __name__ == "__main__":
    unittest.main()
