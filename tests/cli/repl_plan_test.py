"""am-repl on a plan starts the plan's ranks, which hold the sharded model, and reports a rank's
failure."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from answer_schema import check_answers

BIN = Path(os.environ["AM_BIN_DIR"])
HF = Path(os.environ["AM_SOURCE_DIR"]) / "tests" / "data" / "hf"


def plan_text(mesh="world_size = 2", more=""):
    return f"""
[model]
path = "{HF}/llama"
weights = "{HF}/llama/model.safetensors"
[mesh]
{mesh}
[strategy]
name = "fsdp2"
mp_policy = {{ param_dtype = "float32", reduce_dtype = "float32", output_dtype = "float32" }}
[train]
seq_len = 16
{more}
"""


def children_of(pid):
    """Returns the ranks' process ids by rank; ranks are started in order."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:  # the process has just ended
            continue
        if int(text.rsplit(")", 1)[1].split()[1]) == pid:
            found.append(int(stat.parent.name))
    return sorted(found)


def listening_sockets(pids):
    """Returns the addresses, in the form of /proc/net/tcp, on which any of the processes listens."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                inodes.add(os.readlink(link))
            except FileNotFoundError:  # the socket or process is already gone
                continue
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.append(fields[1])
    return found


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class PlanTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="am-repl-test-")
        self.addCleanup(self.folder.cleanup)
        self.plan = Path(self.folder.name) / "plan.toml"
        self.plan.write_text(plan_text())

    def repl(self, *arguments):
        return subprocess.run(
            [BIN / "am-repl", self.plan, *arguments], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120)

    def results(self, *arguments):
        done = self.repl(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return check_answers(done.stdout)["results"]

    def start(self):
        """Starts a session whose commands are written one by one."""
        process = subprocess.Popen(
            [BIN / "am-repl", self.plan], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        process.stdin.write("memory\n")
        process.stdin.flush()
        for _ in range(4):  # the four lines of `memory`: titles, a rule, two ranks
            process.stdout.readline()
        return process

    def end(self, process):
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()

    def test_two_ranks_answer_as_a_checkpoint_does(self):
        self.hold_against_checkpoint()

    def test_stages_answer_as_a_checkpoint_does(self):
        for mesh in ("world_size = 2\npp_size = 2", "world_size = 4\npp_size = 2",
                     "world_size = 4\npp_size = 2\ntp_size = 2"):
            self.plan.write_text(plan_text(mesh))
            self.hold_against_checkpoint()
        show, unshard = self.results("-c", "show model.layers.1.mlp.up_proj.weight; unshard model.layers.1")
        self.assertEqual([shard["rank"] for shard in show["shards"]], [2, 3])
        self.assertEqual([rank["unsharded_bytes"] > 0 for rank in unshard["after"]], [False, False, True, True])  # stage 1, over tp

    def hold_against_checkpoint(self):
        commands = "stats; loss 'ABC DEF'; logprob HELLO; generate AB --tokens 5"
        sharded = self.results("-c", commands)
        at_rest = subprocess.run(
            [BIN / "am-repl", HF / "llama" / "model.safetensors", "-c", commands, "--json"],
            capture_output=True, text=True, timeout=60)
        expected = json.loads(at_rest.stdout)["results"]
        for ours, theirs in zip(sharded[0]["stats"], expected[0]["stats"], strict=True):
            self.assertEqual(ours["name"], theirs["name"])
            self.assertAlmostEqual(ours["std"], theirs["std"], places=12)
        self.assertAlmostEqual(sharded[1]["loss"], expected[1]["loss"], places=5)
        self.assertAlmostEqual(sharded[2]["total"], expected[2]["total"], places=4)
        self.assertEqual(sharded[3]["tokens"], expected[3]["tokens"])

    def test_unshard_shows_each_rank_before_and_after(self):
        unshard, reshard = self.results("-c", "unshard lm_head.weight; reshard all")
        self.assertEqual([rank["unsharded_bytes"] for rank in unshard["before"]], [0, 0])
        self.assertEqual([rank["unsharded_bytes"] for rank in unshard["after"]], [97 * 32 * 4] * 2)
        self.assertEqual(unshard["boxes_before"][1]["offset"], [49, 0])
        self.assertEqual([rank["unsharded_bytes"] for rank in reshard["after"]], [0, 0])

    def test_nobody_outside_of_the_machine_can_reach_a_session(self):
        process = self.start()
        addresses = listening_sockets([process.pid, *children_of(process.pid)])
        self.assertTrue(addresses)  # the address of the rendezvous store
        loopback = "0100007F:"
        self.assertEqual([a for a in addresses if not a.startswith(loopback)], [])

    def test_a_wrong_command_ends_the_script_with_one_message(self):
        done = self.repl("-c", "show nothing; info")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("there is no parameter"), 1)
        self.assertEqual(done.stdout, "")

    def test_a_wrong_plan_starts_no_rank(self):
        self.plan.write_text(plan_text(mesh="world_size = 3\ntp_size = 3"))
        done = self.repl("-c", "info", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        diagnostics = check_answers(done.stdout)["diagnostics"]
        self.assertTrue(any("3" in item["message"] for item in diagnostics))
        self.assertIn("plan.toml:", done.stderr)

    def test_set_and_nproc_change_the_plan(self):
        (mesh,) = self.results("--set", "mesh.world_size=1", "-c", "mesh")
        self.assertEqual(mesh["groups"]["dp"], [[0]])
        self.plan.write_text(plan_text(mesh=""))
        (mesh,) = self.results("--nproc", "2", "-c", "mesh")
        self.assertEqual(mesh["groups"]["dp"], [[0, 1]])

    def test_a_plan_that_is_looked_at_need_not_be_one_that_trains(self):
        self.plan.write_text(plan_text(more="global_batch_size = 7\n[data]\nkind = \"text\"\n"
                             'path = "/nowhere/at/all.txt"\ntokenizer = "bytes"\n'))
        mesh, stats = self.results("-c", "mesh; stats model.norm.weight")
        self.assertEqual(mesh["groups"]["dp"], [[0, 1]])
        self.assertEqual(stats["stats"][0]["numel"], 32)
        done = self.repl("-c", "step")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the plan cannot be trained", done.stderr)
        (mesh,) = self.results("--nproc", "4", "-c", "mesh")
        self.assertEqual(mesh["groups"]["dp"], [[0, 1, 2, 3]])

    def test_too_many_ranks(self):
        self.plan.write_text(plan_text(mesh="world_size = 128"))
        done = self.repl("-c", "info")
        self.assertEqual(done.returncode, 1)
        self.assertIn("am-plan shows layouts of any size", done.stderr)

    def test_weights_that_cannot_be_read(self):
        self.plan.write_text(plan_text().replace("llama/model.safetensors", "qwen3/model.safetensors"))
        done = self.repl("-c", "info")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("does not fit the model", done.stderr)
        self.assertEqual(done.stderr.count("does not fit"), 1)

    def test_a_killed_rank_is_named_and_nobody_is_left(self):
        process = self.start()
        ranks = children_of(process.pid)
        self.assertEqual(len(ranks), 2)
        os.kill(ranks[1], signal.SIGKILL)
        out, err = process.communicate("stats\n", timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("rank 1", err)
        self.assertIn("SIGKILL", err)
        self.assertFalse(any(is_alive(rank) for rank in ranks))

    def test_a_rank_killed_in_the_middle_of_a_command(self):
        process = self.start()
        ranks = children_of(process.pid)
        process.stdin.write("generate AB --tokens 1000000\n")
        process.stdin.flush()
        time.sleep(0.5)
        os.kill(ranks[1], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("rank 1 on node 0 failed: signal SIGKILL", err)
        self.assertFalse(any(is_alive(rank) for rank in ranks))

    def test_ranks_die_with_a_killed_session(self):
        process = self.start()
        ranks = children_of(process.pid)
        process.kill()
        process.wait()
        deadline = time.time() + 10
        while any(is_alive(rank) for rank in ranks) and time.time() < deadline:
            time.sleep(0.05)
        self.assertFalse(any(is_alive(rank) for rank in ranks))


if __name__ == "__main__":
    unittest.main()
