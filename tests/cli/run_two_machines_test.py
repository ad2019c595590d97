"""am-run on two machines, which are simulated by two network namespaces with a virtual cable.

Tests on one machine cannot check the following: the ranks' sockets must use the interface that
reaches the other machine. In a namespace, 127.0.0.1 reaches only the namespace itself, and the
host's name does not resolve to the other machine.
"""
# ctest: waits

import json
import os
import subprocess
import time
import unittest

from run_support import BIN, DATA, RunTest, free_port, plan_text, why_not

ADDRESSES = ("10.117.0.1", "10.117.0.2")
INTERFACE = "amcable"


def shell(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


class TwoMachinesTest(RunTest):
    @classmethod
    def setUpClass(cls):
        reason = why_not("unshare", "--net", "ip", "link", "add", INTERFACE, "type", "veth",
                         "peer", "name", INTERFACE + "2")
        if reason:
            raise unittest.SkipTest(f"no network namespaces: {reason}")

    def setUp(self):
        super().setUp()
        # A namespace and its end of the cable exist as long as a process runs in the namespace.
        self.machines = [self.new_namespace() for _ in ADDRESSES]
        first, second = self.machines
        self.must("ip", "link", "add", INTERFACE, "netns", first,
                  "type", "veth", "peer", "name", INTERFACE, "netns", second)
        for machine, address in zip(self.machines, ADDRESSES):
            self.must(*self.on(machine), "ip", "addr", "add", f"{address}/24", "dev", INTERFACE)
            for device in ("lo", INTERFACE):
                self.must(*self.on(machine), "ip", "link", "set", device, "up")

    def new_namespace(self):
        holder = subprocess.Popen(["unshare", "--net", "sleep", "600"])
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        own = os.readlink("/proc/self/ns/net")
        end = time.monotonic() + 30
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return holder.pid

    def on(self, machine):
        return ["nsenter", f"--net=/proc/{machine}/ns/net"]

    def must(self, *command):
        done = shell(*command)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")

    def start_on(self, machine, *arguments, env=None):
        job = subprocess.Popen(
            [*self.on(machine), str(BIN / "am-run"), *map(str, arguments)], cwd=self.path,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(env or {})})
        self.addCleanup(self.end, job)
        return job

    def assert_trained(self, jobs, run):
        for job in jobs:
            _, said = job.communicate(timeout=120)
            self.assertEqual(job.returncode, 0, said)
        wanted = json.loads((DATA / "loop" / "losses.json").read_text())["losses"]
        records = self.metrics(run)
        self.assertEqual(len(records), 3)
        for record, loss in zip(records, wanted):
            self.assertAlmostEqual(record["loss"] / loss, 1.0, delta=1e-4)

    def test_two_launchers(self):
        plan = self.write_plan(plan_text(mesh="world_size = 4\ntp_size = 2", steps=3))
        rendezvous = f"{ADDRESSES[0]}:{free_port()}"
        jobs = [self.start_on(machine, plan, "--run-dir", self.path / "run", "--timeout", 60,
                              "--nnodes", 2, "--node-rank", node, "--rdzv", rendezvous)
                for node, machine in enumerate(self.machines)]
        self.assert_trained(jobs, "run")

    def test_ranks_of_another_launcher(self):
        plan = self.write_plan(plan_text(steps=3))
        port = free_port()
        jobs = [self.start_on(machine, plan, "--run-dir", self.path / "run", "--timeout", 60,
                              env={"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                                   "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": ADDRESSES[0],
                                   "MASTER_PORT": str(port)})
                for rank, machine in enumerate(self.machines)]
        self.assert_trained(jobs, "run")

    def test_an_interface_that_is_not_there_is_named(self):
        plan = self.write_plan(plan_text(steps=3))
        job = self.start_on(self.machines[0], plan, "--run-dir", self.path / "run", "--timeout", 20,
                            env={"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                                 "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": ADDRESSES[0],
                                 "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "nowhere0"})
        _, said = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 1, said)
        self.assertIn('GLOO_SOCKET_IFNAME: Gloo cannot use the interface "nowhere0"', said)

    def test_a_name_server_that_does_not_answer_is_named(self):
        # The C library's resolver waits 10 s or more for a name server. am-run's time limits must
        # hold nevertheless.
        (self.path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        server = "import socket, time; s = socket.socket(2, 2); s.bind(('127.0.0.1', 53)); time.sleep(120)"
        plan = self.write_plan(plan_text(steps=3))
        address = f"node-0.example.org:{free_port()}"
        jobs = []
        for node, machine in enumerate(self.machines):
            silent = subprocess.Popen([*self.on(machine), "python3", "-c", server])
            self.addCleanup(silent.wait)
            self.addCleanup(silent.kill)
            mount = f"mount --bind '{self.path}/resolv.conf' /etc/resolv.conf && exec \"$@\""
            jobs.append(subprocess.Popen(
                [*self.on(machine), "unshare", "-m", "sh", "-c", mount, "sh", BIN / "am-run", plan, "--run-dir",
                 f"run-{node}", "--nnodes", "2", "--node-rank", str(node), "--rdzv", address,
                 "--timeout", "4"], cwd=self.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
            self.addCleanup(self.end, jobs[-1])
        for job in jobs:
            _, said = job.communicate(timeout=20)
            self.assertNotEqual(job.returncode, 0, said)
            self.assertRegex(said, r"wait[^\n]* for [^\n]*node-0\.example\.org[^\n]*: the name service does not answer")
            self.assertRegex(said, r"cannot [^\n]*node-0\.example\.org:\d+: the name service does not answer")


if __name__ == "__main__":
    unittest.main()
