"""A client of a running job, without am-repl: for its tests and for scripts/bench/attachers.py."""

import json
import socket
import struct


class Talker:
    """Communicates with a job by its protocol."""

    def __init__(self, run, seconds=20):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(seconds)
        self.socket.connect(json.loads((run / "control" / "control.json").read_text())["socket"])
        self.socket.sendall(b"AMRPC\0\0\1")
        self.stream = self.socket.makefile("rb")
        self.send(protocol=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()

    def send(self, **message):
        text = json.dumps(message).encode()
        self.socket.sendall(struct.pack("<I", len(text)) + text)

    def reply(self, number):
        while True:
            (size,) = struct.unpack("<I", self.stream.read(4))
            answer = json.loads(self.stream.read(size))
            if answer.get("id") == number:
                return answer["reply"]
