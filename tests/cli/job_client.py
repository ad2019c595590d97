"""A client of a running job that does not use am-repl, for am-repl's tests and for
scripts/bench/attachers.py."""

import json
import socket
import struct


class Talker:
    """Exchanges messages with a job by the protocol of its control socket."""

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

    def message(self):
        """Waits for the job's next message and returns it."""
        (size,) = struct.unpack("<I", self.stream.read(4))
        return json.loads(self.stream.read(size))

    def reply(self, number):
        while True:
            answer = self.message()
            if answer.get("id") == number:
                return answer["reply"]
