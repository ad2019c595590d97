"""Text from a checkpoint, a path or a process that poses as a job must not control the terminal of
am-repl or am-run."""

import contextlib
import json
import os
import socket
import struct
import subprocess
import threading
import unittest
from pathlib import Path

from escape_support import CONTROL, EVIL, EVIL_BYTES, OURS, on_terminal
from run_support import BIN, DATA, RunTest, plan_text


def safetensors(tensors, metadata=None):
    """Returns the bytes of a safetensors file of float32 zeros; `tensors`: {name: number of
    elements}."""
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, count in tensors.items():
        header[name] = {"dtype": "F32", "shape": [count], "data_offsets": [at, at + 4 * count]}
        at += 4 * count
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


class Impostor:
    """Pretends to be a run's job: writes control.json to the run folder, listens at its socket,
    and sends arbitrary answers."""

    def __init__(self, run, welcome, answers=()):
        control = run / "control"
        control.mkdir(parents=True, mode=0o700)
        self.path = control / "rank-0.sock"
        stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        (control / "control.json").write_text(json.dumps({
            "protocol": 1, "host": socket.gethostname(), "pid": os.getpid(), "begun": int(stat[19]),
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            "socket": str(self.path), "tcp": None, "slurm_job": ""}))
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(8)
        self.welcome, self.answers = welcome, answers
        threading.Thread(target=self.serve, daemon=True).start()

    def close(self):
        self.listener.close()

    @staticmethod
    def frame(message):
        text = json.dumps(message).encode()
        return struct.pack("<I", len(text)) + text

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                threading.Thread(target=self.talk, args=(peer,), daemon=True).start()

    def talk(self, peer):
        stream = peer.makefile("rb")
        with contextlib.suppress(OSError, struct.error):
            stream.read(8)
            number = 0
            while True:
                (size,) = struct.unpack("<I", stream.read(4))
                message = json.loads(stream.read(size))
                if number == 0:
                    peer.sendall(self.frame(self.welcome))
                elif "input" in message:
                    for answer in self.answers:
                        peer.sendall(self.frame({**answer, "id": message["id"]} if "part" in answer else answer))
                    if self.answers[-1].get("event") == "ended":
                        peer.shutdown(socket.SHUT_RDWR)
                number += 1


class Clean(RunTest):
    def assert_clean(self, *words, timeout=60):
        words = [os.fsencode(word) for word in (BIN / words[0], *words[1:])]
        done = subprocess.run(words, cwd=self.path, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
        shown = on_terminal(words, self.path, timeout)
        for where, out in (("stdout", done.stdout), ("stderr", done.stderr), ("terminal", shown)):
            text = out.decode()
            self.assertNotIn("json.exception", text)
            if where == "terminal":
                text = OURS.sub("", text)
            found = CONTROL.search(text)
            if found:
                self.fail(f"{words}: {found.group()!r} on {where}: {text[max(0, found.start() - 200):][:300]!r}")
        return done

    def test_names_of_tensors_and_files(self):
        folder = os.path.join(os.fsencode(self.path), b"weights" + EVIL_BYTES)
        os.mkdir(folder)
        with open(os.path.join(folder, b"model.safetensors"), "wb") as file:
            file.write(safetensors({EVIL: 4, "b": 4}, {EVIL: EVIL}))
        for command in ("info", "ls", "tree", "show *", "stats *", f"show {json.dumps(EVIL)}", "nothing", "print b",
                        "verify", f"ls {json.dumps(EVIL)}", "plot *", f"source {json.dumps(EVIL)}", "hist b", "norms *"):
            for more in ([], ["--json"]):
                with self.subTest((command, more)):
                    self.assert_clean("am-repl", folder, "-c", command, *more)
        self.assert_clean("am-repl", folder + b"none")
        self.assert_clean("am-repl", folder, "-f", EVIL_BYTES)

    def test_files_that_are_no_json(self):
        for name, text in (("config.json", "{x" + EVIL), ("config.json", json.dumps({"model_type": EVIL})),
                           ("model.safetensors.index.json", "{" + EVIL), ("tokenizer.json", "{" + EVIL),
                           ("adapter_config.json", EVIL), ("model.safetensors", None)):
            folder = self.path / f"folder-{name}-{len(text or '')}"
            folder.mkdir()
            (folder / "model.safetensors").write_bytes(safetensors({"a.weight": 4}))
            if text is None:
                (folder / name).write_bytes(struct.pack("<Q", 20) + b"{\"a\x1b[2J\": x}         ")
            else:
                (folder / name).write_text(text)
            for command in ("info", "ls", "export out", "loss hello", "export out2 --format dcp"):
                with self.subTest((name, command)):
                    done = self.assert_clean("am-repl", folder, "-c", command)
                    if command == "export out" and name == "config.json" and text.startswith("{x"):
                        self.assertIn(b"config.json:1:2: not JSON", done.stderr)

    def test_paths_of_a_run(self):
        """Trains, resumes and inspects a run whose run folder, data and plan have control
        characters in their names."""
        name = EVIL_BYTES.decode(errors="surrogateescape").replace("/", "")
        data = self.path / f"data{EVIL}.bin"
        data.write_bytes((DATA / "loop" / "tokens.bin").read_bytes())
        text = plan_text(steps=2, mesh="world_size = 1").replace(f'"{DATA}/loop/tokens.bin"', json.dumps(str(data)))
        plan = self.write_plan(text)
        run = os.path.join(os.fsencode(self.path), b"run" + EVIL_BYTES)
        for more in ([], ["--steps", "4"], ["--steps", "4"], ["--json", "--steps", "5"]):
            done = self.assert_clean("am-run", plan, "--run-dir", run, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(os.fsencode(answer["run_dir"]), run)
        self.assert_clean("am-repl", run, "-c", "info; ls")
        self.assert_clean("am-run", plan, "--run-dir", run, "--resume", b"none" + EVIL_BYTES)
        self.assert_clean("am-run", self.write_plan(plan_text(mesh="world_size = 3\ntp_size = 2"), name + ".toml"))
        self.assert_clean("am-run", plan, "--dry-run")
        self.assert_clean("am-run", plan, "--fault", EVIL)
        self.assert_clean("am-run", plan, "--" + EVIL, "x")

    def attached(self, welcome, *answers, command="info", status=None):
        run = self.path / f"run-{len(list(self.path.iterdir()))}"
        impostor = Impostor(run, welcome, answers)
        self.addCleanup(impostor.close)
        done = self.assert_clean("am-repl", run, "-c", command)
        self.assertNotIn(b"internal", done.stderr)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stderr)
        return (done.stdout + done.stderr).decode()

    def test_what_an_impostor_says(self):
        welcome = {"event": "welcome", "title": "t" + EVIL, "note": "n" + EVIL, "parameters": [EVIL], "modules": []}
        said = {"event": "said", "text": EVIL + "\nsecond line"}
        reply = {"part": 0, "last": True, "reply": {"input": "info", "command": "info", "text": EVIL + "\n", "json": {},
                                                    "title": EVIL}}
        text = self.attached(welcome, said, {"event": "dropped", "count": 3}, reply, status=0)
        self.assertIn("second line", text)
        self.assertIn("3 messages from the job were dropped", text)
        failed = {"part": 0, "last": True, "reply": {"error": {"kind": 4, "message": "a" + EVIL + "\nrank 1 is late",
                                                               "hint": EVIL}}}
        text = self.attached(welcome, failed, status=1)
        self.assertIn("\n  rank 1 is late\n", text)
        self.attached({"event": "refused", "message": EVIL}, status=1)
        self.attached(welcome, {"event": "ended", "text": EVIL})

    def test_wrong_types_are_no_job(self):
        good = {"event": "welcome", "title": "t", "note": "", "parameters": [], "modules": []}
        for wrong in ({"title": 1}, {"note": []}, {"parameters": 1}, {"parameters": [1]}, {"modules": {"a": 1}}):
            with self.subTest(wrong):
                self.assertIn("not a job of am-run", self.attached({**good, **wrong}, status=2))
        whole = {"part": 0, "last": True}
        for answer in ({**whole, "reply": {"text": 1}}, {**whole, "reply": {"title": []}}, {**whole, "reply": 3},
                       {**whole, "reply": {"error": {}}}, {**whole, "reply": {"error": {"kind": "x"}}},
                       {"part": "a"}, {**whole, "piece": 3}):
            with self.subTest(answer):
                text = self.attached(good, {"event": 3, "text": []}, {"event": "dropped", "count": "x"}, answer)
                self.assertRegex(text, "not a job of am-run|malformed answer")


if __name__ == "__main__":
    unittest.main()
