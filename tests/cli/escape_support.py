"""Texts with control characters for a terminal, patterns of the allowed control characters, and
a tool's output to a terminal."""

import os
import pty
import re
import select
import subprocess

from cli_support import ENVIRONMENT

# Sequences that set the title, clear the screen, hide text, and set a colour that the tools also
# use; C1's CSI; characters that change the direction of text.
EVIL = "x\x1b]0;pwn\x07\x1b[2J\x1b[8m\x1b[1;31m\u009b31m\u202e\u2066y"
# EVIL with a byte that is not UTF-8, for file names.
EVIL_BYTES = EVIL.encode() + b"\x9b2J"
OURS = re.compile("\x1b\\[(0|1|2|32|34|1;31|1;33|1;36)m")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def on_terminal(arguments, cwd, seconds=60):
    """Runs a tool on a pseudo-terminal and returns its output."""
    parent, child = pty.openpty()
    process = subprocess.Popen(arguments, cwd=cwd, env={**ENVIRONMENT, "TERM": "xterm"}, stdin=subprocess.DEVNULL,
                               stdout=child, stderr=child)
    os.close(child)
    out = b""
    try:
        while select.select([parent], [], [], seconds)[0]:
            try:
                piece = os.read(parent, 65536)
            except OSError:
                break
            if not piece:
                break
            out += piece
    finally:
        if process.poll() is None and not out:
            process.kill()
        process.wait(timeout=seconds)
        os.close(parent)
    return out.replace(b"\r\n", b"\n")
